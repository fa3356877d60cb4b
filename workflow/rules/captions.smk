# Which caption goes with which image: a permutation of captions, never a rewritten shard.


rule corrupt_captions:
    input:
        index=dag.index(),
    output:
        pairing="results/pairs/{corpus}/pairing/cm~{rate}.parquet",
    log:
        "logs/corrupt_captions/{corpus}/cm~{rate}.log",
    benchmark:
        "benchmarks/corrupt_captions/{corpus}/cm~{rate}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("corrupt_captions"),
        flags=dag.flags("corrupt_captions"),
    message:
        "Shuffle captions of {wildcards.corpus} with probability C_m = {wildcards.rate}"
    shell:
        "python -m mispair corrupt-captions --rate {wildcards.rate} --index {input.index:q}"
        " --pairing {output.pairing} {params.flags} > {log} 2>&1"
