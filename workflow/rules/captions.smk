# Which caption goes with which image: a table of captions by key, never a rewritten shard.


rule find_similar_captions:
    input:
        corpus="results/pairs/{corpus}/corpus.parquet",
        index=dag.index(),
        features=dag.compared_features("safetensors"),
        rows=dag.compared_features("parquet"),
    output:
        similar="results/pairs/{corpus}/similar.parquet",
    log:
        "logs/find_similar_captions/{corpus}.log",
    benchmark:
        "benchmarks/find_similar_captions/{corpus}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("find_similar_captions"),
    params:
        *code_version("find_similar_captions"),
        flags=dag.flags("find_similar_captions"),
    message:
        "Find the captions of {wildcards.corpus} that are most similar to each"
    shell:
        "python -m mispair find-similar-captions --corpus {input.corpus} --index {input.index:q}"
        " --features {input.features:q} --feature-rows {input.rows:q} --similar {output.similar}"
        " {params.flags} > {log} 2>&1"


rule corrupt_captions:
    input:
        corpus="results/pairs/{corpus}/corpus.parquet",
        index="results/pairs/{corpus}/index/parquet.sha256",
        similar=dag.similar_captions,
        truth=steady(dag.truth),
    output:
        pairing="results/pairs/{corpus}/pairing/{scheme}~{rate}.parquet",
        captions="results/pairs/{corpus}/pairing/{scheme}~{rate}.captions.parquet",
    log:
        "logs/corrupt_captions/{corpus}/{scheme}~{rate}.log",
    benchmark:
        "benchmarks/corrupt_captions/{corpus}/{scheme}~{rate}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("corrupt_captions"),
        stamps=dag.stamps(dag.truth),
        flags=dag.flags("corrupt_captions"),
        draws=dag.draws,
    message:
        "Corrupt captions of {wildcards.corpus}: {wildcards.scheme}, rate {wildcards.rate}"
    shell:
        "python -m mispair corrupt-captions --scheme {wildcards.scheme} --rate {wildcards.rate}"
        " --draws {params.draws} --corpus {input.corpus} --index @{input.index:q}"
        " --similar {input.similar:q} --truth {input.truth:q} --pairing {output.pairing} --captions {output.captions}"
        " {params.flags} > {log} 2>&1"
