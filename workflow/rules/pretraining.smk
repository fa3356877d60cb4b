# Small towers trained from scratch on wrong captions: each seed with a draw of the corruption.
from mispair.pretraining.dag import PICTURES
from mispair.pretraining.dag import TRAINING as DRAWN


wildcard_constraints:
    draw="[0-9]+",


rule decode_pictures:
    input:
        corpus="results/pairs/{corpus}/corpus.parquet",
        index=dag.index(),
        shards=steady(dag.shards_of_first(len(dag.groups))),
    output:
        pictures=PICTURES,
    log:
        "logs/decode_pictures/{corpus}.log",
    benchmark:
        "benchmarks/decode_pictures/{corpus}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("decode_pictures"),
        flags=literal(dag.flags("decode_pictures")),
    message:
        "Decode the pictures of {wildcards.corpus}"
    shell:
        "python -m mispair decode-pictures --corpus {input.corpus:q} --index {input.index:q}"
        " --shards {input.shards:q} --pictures {output.pictures:q} {params.flags} > {log:q} 2>&1"


# The same step with a seed and a job for each draw, so that a further draw repeats no training.
use rule corrupt_captions as corrupt_captions_of_draw with:
    output:
        pairing=f"{DRAWN}/pairing.parquet",
        captions=f"{DRAWN}/captions.parquet",
    log:
        "logs/corrupt_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/corrupt_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    params:
        *code_version("corrupt_captions"),
        stamps=dag.stamps(dag.truth),
        flags=dag.pretraining.corruption_flags,
        draws=1,
    message:
        "Corrupt captions: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


rule train_small_towers:
    input:
        pictures=PICTURES,
        index=dag.index(),
        pairing=f"{DRAWN}/pairing.parquet",
        captions=f"{DRAWN}/captions.parquet",
    output:
        towers=f"{DRAWN}/towers.safetensors",
    log:
        "logs/train_small_towers/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/train_small_towers/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("train_small_towers"),
        flags=literal(dag.flags("train_small_towers")),
        # The resume state of a killed job: no output, so that Snakemake does not remove it.
        checkpoint=lambda wildcards, output: f"{output.towers[:-12]}.checkpoint",
    message:
        "Train towers on {wildcards.scheme} captions, rate {wildcards.rate}, draw {wildcards.draw}"
    shell:
        "python -m mispair train-small-towers --scheme {wildcards.scheme:q} --rate {wildcards.rate:q}"
        " --draw {wildcards.draw:q} --pictures {input.pictures:q} --index {input.index:q}"
        " --pairing {input.pairing:q} --captions {input.captions:q} --checkpoint {params.checkpoint:q}"
        " --towers {output.towers:q} {params.flags} > {log:q} 2>&1"


rule measure_mixing:
    input:
        towers=f"{DRAWN}/towers.safetensors",
        pictures=PICTURES,
        corpus="results/pairs/{corpus}/corpus.parquet",
        index=dag.index(),
        truth=steady(dag.truth_of_all()),
        evaluation_sets=dag.pretraining.evaluation_sets(),
    output:
        mixing=f"{DRAWN}/mixing.json",
    log:
        "logs/measure_mixing/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/measure_mixing/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("measure_mixing"),
        flags=literal(dag.flags("measure_mixing")),
    message:
        "Measure the towers of {wildcards.scheme} captions, rate {wildcards.rate}, draw {wildcards.draw}"
    shell:
        "python -m mispair measure-mixing --towers {input.towers:q} --pictures {input.pictures:q}"
        " --corpus {input.corpus:q} --index {input.index:q} --truth {input.truth:q}"
        " --evaluation-sets {input.evaluation_sets:q} --mixing {output.mixing:q}"
        " {params.flags} > {log:q} 2>&1"


# All results of the study, without the report.
rule pretraining:
    input:
        alone(lambda wildcards: dag.refuse_unlisted("pretraining")),
        dag.results("pretraining"),
