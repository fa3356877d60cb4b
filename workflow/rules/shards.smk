# Image-text pairs: the generated corpus, and the index of any corpus.


rule make_scenes:
    output:
        shards=expand(
            "results/scenes/shards/{name}.{kind}",
            name=dag.generated_shard_names,
            kind=["tar", "parquet"],
        ),
        statistics=expand("results/scenes/shards/{name}_stats.json", name=dag.generated_shard_names),
    log:
        "logs/make_scenes.log",
    benchmark:
        "benchmarks/make_scenes.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 2
    params:
        *code_version("make_scenes"),
        folder=folder_of_output,
        flags=dag.flags("make_scenes"),
    message:
        "Render the scenes corpus and write it as tar shards"
    shell:
        "python -m mispair make-scenes --corpus {params.folder:q} {params.flags} > {log} 2>&1"


rule read_captions:
    input:
        table=steady(dag.caption_table),
        key_list=steady(dag.caption_keys),
    output:
        captions="results/pairs/{corpus}/captions.parquet",
    log:
        "logs/read_captions/{corpus}.log",
    benchmark:
        "benchmarks/read_captions/{corpus}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("read_captions"),
        stamps=dag.stamps(dag.caption_table, dag.caption_keys),
        flags=dag.flags("read_captions"),
    message:
        "Read the table of captions of {wildcards.corpus}"
    shell:
        "python -m mispair read-captions --table {input.table:q} --keys {input.key_list:q}"
        " --captions {output.captions} {params.flags} > {log} 2>&1"


rule index_shards:
    input:
        shards=steady(dag.shards_of),
        downloads=steady(dag.downloads_of),
        captions=dag.captions(),
    output:
        index="results/pairs/{corpus}/index/{group}.parquet",
        rejected="results/pairs/{corpus}/index/{group}.rejected.parquet",
    log:
        "logs/index_shards/{corpus}/{group}.log",
    benchmark:
        "benchmarks/index_shards/{corpus}/{group}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: dag.config.index_shards.workers
    params:
        *code_version("index_shards"),
        stamps=dag.stamps(dag.shards_of, dag.downloads_of),
        sources=dag.sources_of,
        flags=dag.flags("index_shards"),
    message:
        "Index shard group {wildcards.group} of {wildcards.corpus}"
    shell:
        "python -m mispair index-shards --shards {input.shards:q} --sources {params.sources}"
        " --captions {input.captions:q} --workers {threads} --index {output.index} --rejected {output.rejected}"
        " {params.flags} > {log} 2>&1"


# What many jobs write and others read whole, as one file each: a plan has that many fewer to look for.
rule list_files:
    input:
        files=dag.index() + dag.index("rejected.parquet"),
    output:
        listings=expand(
            "results/pairs/{{corpus}}/index/{kind}.sha256", kind=["parquet", "rejected.parquet"]
        ),
    log:
        "logs/list_files/{corpus}.log",
    benchmark:
        "benchmarks/list_files/{corpus}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("list_files"),
    message:
        "List the files in {output.listings}"
    shell:
        "python -m mispair list-files --files {input.files:q} --listings {output.listings:q}"
        " > {log} 2>&1"


rule gather_index:
    input:
        index=f"results/pairs/{dag.corpus}/index/parquet.sha256",
        rejected=f"results/pairs/{dag.corpus}/index/rejected.parquet.sha256",
    output:
        corpus=f"results/pairs/{dag.corpus}/corpus.parquet",
        # Without a wildcard: each lookup of a file below results/pairs tries all patterns with one.
        captions=expand(
            "results/pairs/{corpus}/{part}.parquet", corpus=dag.corpus, part=dag.caption_parts
        ),
        excluded=f"results/pairs/{dag.corpus}/excluded.parquet",
        statistics=f"results/pairs/{dag.corpus}/statistics.json",
    log:
        f"logs/gather_index/{dag.corpus}.log",
    benchmark:
        f"benchmarks/gather_index/{dag.corpus}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("gather_index"),
        flags=dag.flags("gather_index"),
    message:
        f"Count what {dag.corpus} holds, and stop if too much of it is damaged"
    shell:
        "python -m mispair gather-index --index @{input.index:q} --rejected @{input.rejected:q}"
        " --corpus {output.corpus} --captions {output.captions} --excluded {output.excluded}"
        " --statistics {output.statistics} {params.flags} > {log} 2>&1"
