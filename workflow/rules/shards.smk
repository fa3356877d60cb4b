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


rule gather_index:
    input:
        index=dag.index(),
        rejected=dag.index("rejected.parquet"),
    output:
        corpus="results/pairs/{corpus}/corpus.parquet",
        captions=expand("results/pairs/{{corpus}}/{part}.parquet", part=dag.caption_parts),
        excluded="results/pairs/{corpus}/excluded.parquet",
        statistics="results/pairs/{corpus}/statistics.json",
    log:
        "logs/gather_index/{corpus}.log",
    benchmark:
        "benchmarks/gather_index/{corpus}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("gather_index"),
        flags=dag.flags("gather_index"),
    message:
        "Count what {wildcards.corpus} holds, and stop if too much of it is damaged"
    shell:
        "python -m mispair gather-index --index {input.index:q} --rejected {input.rejected:q}"
        " --corpus {output.corpus} --captions {output.captions} --excluded {output.excluded}"
        " --statistics {output.statistics} {params.flags} > {log} 2>&1"
