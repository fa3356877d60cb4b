# Small towers trained from scratch on wrong captions: each seed with a draw of the corruption.


use rule step as decode_pictures with:
    input:
        corpus=pairs.CORPUS,
        index=dag.every(pairs.INDEX),
        shards=steady(dag.pairs.shards(), copied=True),
    output:
        pictures=pretraining.PICTURES,
    pathvars:
        job="decode_pictures/{corpus}",
    params:
        **dag.step("decode_pictures"),


# The same step with a seed and a job for each draw, so that a further draw repeats no training.
use rule corrupt_captions as corrupt_captions_of_draw with:
    output:
        pairing=pretraining.PAIRING,
        captions=pretraining.CAPTIONS,
    pathvars:
        job="corrupt_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}",
    params:
        **dag.step("corrupt_captions", draws=1, flags=dag.pretraining.corruption_flags),
    message:
        "Corrupt captions: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


use rule step as train_small_towers with:
    input:
        pictures=pretraining.PICTURES,
        index=dag.every(pairs.INDEX),
        pairing=pretraining.PAIRING,
        captions=pretraining.CAPTIONS,
    output:
        towers=pretraining.TOWERS,
    pathvars:
        job="train_small_towers/{corpus}/{scheme}~{rate}/draw~{draw}",
    params:
        **dag.step("train_small_towers", checkpoint=resume_state),


use rule step as measure_mixing with:
    input:
        towers=pretraining.TOWERS,
        pictures=pretraining.PICTURES,
        corpus=pairs.CORPUS,
        index=dag.every(pairs.INDEX),
        truth=steady(dag.truth_of_all()),
        evaluation_sets=dag.pretraining.evaluation_sets(),
    output:
        mixing=pretraining.MIXING,
    pathvars:
        job="measure_mixing/{corpus}/{scheme}~{rate}/draw~{draw}",
    params:
        **dag.step("measure_mixing"),


rule pretraining:
    input:
        alone(lambda wildcards: dag.refuse_unlisted("pretraining")),
        dag.results("pretraining"),
