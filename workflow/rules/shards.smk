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
        flags=dag.flags("make_scenes"),
    message:
        "Render the scenes corpus and write it as tar shards"
    shell:
        "python -m mispair make-scenes --corpus results/scenes/shards {params.flags} > {log} 2>&1"


rule index_shards:
    input:
        shards=dag.shards_of,
    output:
        index="results/pairs/{corpus}/index/{group}.parquet",
        rejected="results/pairs/{corpus}/index/{group}.rejected.parquet",
    log:
        "logs/index_shards/{corpus}/{group}.log",
    benchmark:
        "benchmarks/index_shards/{corpus}/{group}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("index_shards"),
        flags=dag.flags("index_shards"),
    message:
        "Index shard group {wildcards.group} of {wildcards.corpus}"
    shell:
        "python -m mispair index-shards --shards {input.shards:q} --index {output.index}"
        " --rejected {output.rejected} {params.flags} > {log} 2>&1"
