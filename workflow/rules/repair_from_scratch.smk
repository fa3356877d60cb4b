# Towers trained from scratch on the captions of each rule of the repair. In each draw of the
# corruption, captioner and scorer use towers that were trained from scratch on its raw captions.
from mispair.repair import from_scratch


use rule filter_captions as filter_captions_of_draw with:
    input:
        pairing=pretraining.PAIRING,
        original=from_scratch.original(dag),
        trusted=repair.TRUSTED,
        recaptions=from_scratch.recaptions,
        scores=from_scratch.scores,
        first=[],
        audits=[],
        captions=from_scratch.texts(dag.every(pairs.CAPTIONS)),
        truth=steady(dag.truth_of_all()),
    output:
        repaired=repair.REPAIRED_OF_DRAW,
        ledger=repair.LEDGER_OF_DRAW,
    log:
        "logs/filter_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.log",
    benchmark:
        "benchmarks/filter_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.tsv"
    message:
        "Filter captions by the rule {wildcards.repair}: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


use rule train_small_towers as train_repaired_towers with:
    input:
        pictures=pretraining.PICTURES,
        index=dag.every(pairs.INDEX),
        pairing=repair.REPAIRED_OF_DRAW,
        captions=from_scratch.written,
    output:
        towers=repair.TOWERS_OF_DRAW,
    log:
        "logs/train_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.log",
    benchmark:
        "benchmarks/train_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.tsv"
    message:
        "Train towers on captions of the rule {wildcards.repair}: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


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
    log:
        "logs/measure_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.log",
    benchmark:
        "benchmarks/measure_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.tsv"
    message:
        "Measure the towers of the rule {wildcards.repair}: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


rule encode_small_towers:
    input:
        towers=repair.RAW_TOWERS,
        pictures=pretraining.PICTURES,
        corpus=pairs.CORPUS,
        captions=[*dag.every(pairs.CAPTIONS), pretraining.CAPTIONS],
    output:
        image_features=every(repair.RAW_IMAGE_FEATURES, {"group": dag.groups}),
        image_rows=every(repair.RAW_IMAGE_ROWS, {"group": dag.groups}),
        text_features=repair.RAW_TEXT_FEATURES,
        text_rows=repair.RAW_TEXT_ROWS,
        projection=repair.RAW_PROJECTION,
    log:
        "logs/encode_small_towers/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/encode_small_towers/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("encode_small_towers"),
    message:
        "Encode {wildcards.corpus} by towers of raw captions: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"
    shell:
        "python -m mispair encode-small-towers --towers {input.towers:q} --pictures {input.pictures:q}"
        " --corpus {input.corpus:q} --captions {input.captions:q}"
        " --image-features {output.image_features:q} --image-rows {output.image_rows:q}"
        " --text-features {output.text_features:q} --text-rows {output.text_rows:q}"
        " --projection {output.projection:q} > {log:q} 2>&1"


use rule recaption_pairs as recaption_pairs_of_draw with:
    input:
        corpus=pairs.CORPUS,
        features=every(repair.RAW_IMAGE_FEATURES, {"group": dag.groups}),
        rows=every(repair.RAW_IMAGE_ROWS, {"group": dag.groups}),
        trusted=repair.TRUSTED,
        towers=repair.RAW_TOWERS,
        index=[],
        shards=[],
    output:
        recaptions=repair.RAW_RECAPTIONS_OF_ALL,
        record=repair.RAW_RECAPTION_RECORD,
    log:
        "logs/recaption_pairs_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/recaption_pairs_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    params:
        stamps="",
        sources=[],
        features=lambda wildcards, input: " ".join(input.features),
        rows=lambda wildcards, input: " ".join(input.rows),
    message:
        "Write new captions for the pictures of {wildcards.corpus}: rate {wildcards.rate}, draw {wildcards.draw}"


use rule gather_recaptions as gather_recaptions_of_draw with:
    input:
        parts=repair.RAW_RECAPTIONS_OF_ALL,
    output:
        recaptions=repair.RAW_RECAPTIONS,
        texts=repair.RAW_RECAPTION_TEXTS,
    log:
        "logs/gather_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/gather_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"


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
    log:
        "logs/encode_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/encode_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    message:
        "Encode new captions of {wildcards.corpus}: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


use rule score_captions as score_captions_of_draw with:
    input:
        pairing=repair.RAW_OF_DRAW,
        recaptions=repair.RAW_RECAPTIONS,
        features=[
            *every(repair.RAW_IMAGE_FEATURES, {"group": dag.groups}),
            repair.RAW_TEXT_FEATURES,
        ],
        rows=[*every(repair.RAW_IMAGE_ROWS, {"group": dag.groups}), repair.RAW_TEXT_ROWS],
        written_features=[],
        written_rows=[],
        new_features=repair.RAW_NEW_FEATURES,
        new_rows=repair.RAW_NEW_ROWS,
        projection=repair.RAW_PROJECTION,
        trusted=repair.TRUSTED,
    output:
        scores=repair.RAW_SCORES,
    log:
        "logs/score_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/score_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    params:
        features=lambda wildcards, input: " ".join(input.features),
        rows=lambda wildcards, input: " ".join(input.rows),
    message:
        "Score captions by towers of raw captions: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"
