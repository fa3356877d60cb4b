# Small towers trained from scratch on wrong captions: each seed with a draw of the corruption.
wildcard_constraints:
    draw="[0-9]+",


rule decode_pictures:
    input:
        corpus=pairs.CORPUS,
        index=dag.every(pairs.INDEX),
        shards=steady(dag.shards_of_first(len(dag.groups))),
    output:
        pictures=pretraining.PICTURES,
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
        pairing=pretraining.PAIRING,
        captions=pretraining.CAPTIONS,
    log:
        "logs/corrupt_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/corrupt_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    params:
        flags=dag.pretraining.corruption_flags,
        draws=1,
    message:
        "Corrupt captions: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


rule train_small_towers:
    input:
        pictures=pretraining.PICTURES,
        index=dag.every(pairs.INDEX),
        pairing=pretraining.PAIRING,
        captions=pretraining.CAPTIONS,
    output:
        towers=pretraining.TOWERS,
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
        towers=pretraining.TOWERS,
        pictures=pretraining.PICTURES,
        corpus=pairs.CORPUS,
        index=dag.every(pairs.INDEX),
        truth=steady(dag.truth_of_all()),
        evaluation_sets=dag.pretraining.evaluation_sets(),
    output:
        mixing=pretraining.MIXING,
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
