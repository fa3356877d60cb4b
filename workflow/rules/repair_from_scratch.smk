# Towers trained from scratch on the captions of each rule of the repair. In each draw of the
# corruption, captioner and scorer use towers that were trained from scratch on its raw captions.
from mispair.repair import dag as repair_dag


use rule filter_captions as filter_captions_of_draw with:
    input:
        pairing=pretraining.PAIRING,
        original=repair_dag.original_of_draw(dag),
        trusted=repair.TRUSTED,
        recaptions=repair_dag.if_read("new", repair.RAW_RECAPTIONS),
        scores=repair_dag.if_read("cosines", repair.RAW_SCORES),
        first=[],
        audits=[],
        captions=lambda wildcards: [
            *dag.every(pairs.CAPTIONS),
            *repair_dag.written_of_draw(wildcards),
        ],
        truth=steady(dag.truth_of_all()),
    output:
        repaired=repair.REPAIRED_OF_DRAW,
        ledger=repair.LEDGER_OF_DRAW,
    pathvars:
        job="filter_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}",
    message:
        "Filter captions by the rule {wildcards.repair}: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


use rule train_small_towers as train_repaired_towers with:
    input:
        pictures=pretraining.PICTURES,
        index=dag.every(pairs.INDEX),
        pairing=repair.REPAIRED_OF_DRAW,
        captions=repair_dag.written_of_draw,
    output:
        towers=repair.TOWERS_OF_DRAW,
    pathvars:
        job="train_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}",


use rule measure_mixing as measure_repaired_towers with:
    input:
        towers=repair.TOWERS_OF_DRAW,
        pictures=pretraining.PICTURES,
        corpus=pairs.CORPUS,
        index=dag.every(pairs.INDEX),
        truth=steady(dag.truth_of_all()),
        evaluation_sets=dag.pretraining.evaluation_sets(),
    output:
        mixing=repair.MIXING_OF_DRAW,
    pathvars:
        job="measure_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}",


use rule step as encode_small_towers with:
    input:
        towers=repair.RAW_TOWERS,
        pictures=pretraining.PICTURES,
        corpus=pairs.CORPUS,
        captions=[*dag.every(pairs.CAPTIONS), pretraining.CAPTIONS],
    output:
        image_features=every(repair.RAW_IMAGE_FEATURES, {"group": dag.pairs.groups}),
        image_rows=every(repair.RAW_IMAGE_ROWS, {"group": dag.pairs.groups}),
        text_features=repair.RAW_TEXT_FEATURES,
        text_rows=repair.RAW_TEXT_ROWS,
        projection=repair.RAW_PROJECTION,
    pathvars:
        job="encode_small_towers/{corpus}/{scheme}~{rate}/draw~{draw}",
    params:
        **dag.step("encode_small_towers"),


use rule recaption_pairs as recaption_pairs_of_draw with:
    input:
        corpus=pairs.CORPUS,
        features=every(repair.RAW_IMAGE_FEATURES, {"group": dag.pairs.groups}),
        feature_rows=every(repair.RAW_IMAGE_ROWS, {"group": dag.pairs.groups}),
        trusted=repair.TRUSTED,
        towers=repair.RAW_TOWERS,
        index=[],
        shards=[],
    output:
        recaptions=repair.RAW_RECAPTIONS_OF_ALL,
        record=repair.RAW_RECAPTION_RECORD,
    pathvars:
        job="recaption_pairs_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}",
    params:
        **dag.step("recaption_pairs", stamps="", sources=[]),


use rule gather_recaptions as gather_recaptions_of_draw with:
    input:
        parts=repair.RAW_RECAPTIONS_OF_ALL,
    output:
        recaptions=repair.RAW_RECAPTIONS,
        texts=repair.RAW_RECAPTION_TEXTS,
    pathvars:
        job="gather_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}",


use rule encode_small_towers as encode_recaptions_of_draw with:
    input:
        towers=repair.RAW_TOWERS,
        pictures=[],
        corpus=[],
        captions=repair.RAW_RECAPTION_TEXTS,
    output:
        image_features=[],
        image_rows=[],
        text_features=repair.RAW_NEW_FEATURES,
        text_rows=repair.RAW_NEW_ROWS,
        projection=[],
    pathvars:
        job="encode_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}",


use rule score_captions as score_captions_of_draw with:
    input:
        pairing=repair.RAW_OF_DRAW,
        recaptions=repair.RAW_RECAPTIONS,
        features=[
            *every(repair.RAW_IMAGE_FEATURES, {"group": dag.pairs.groups}),
            repair.RAW_TEXT_FEATURES,
            repair.RAW_NEW_FEATURES,
        ],
        feature_rows=[
            *every(repair.RAW_IMAGE_ROWS, {"group": dag.pairs.groups}),
            repair.RAW_TEXT_ROWS,
            repair.RAW_NEW_ROWS,
        ],
        projection=repair.RAW_PROJECTION,
        trusted=repair.TRUSTED,
    output:
        scores=repair.RAW_SCORES,
    pathvars:
        job="score_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}",
