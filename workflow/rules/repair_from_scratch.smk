# Towers trained from scratch on the captions of each rule of the repair. In each draw of the
# corruption, captioner and scorer use towers that were trained from scratch on its raw captions.
from mispair.pretraining.dag import PICTURES
from mispair.pretraining.dag import TRAINING as DRAWN
from mispair.repair import from_scratch
from mispair.repair.from_scratch import FOLDER as SCRATCH
from mispair.repair.from_scratch import RAW


use rule filter_captions as filter_captions_of_draw with:
    input:
        pairing=f"{DRAWN}/pairing.parquet",
        original=from_scratch.original(dag),
        trusted="results/repair/{corpus}/trusted.parquet",
        recaptions=from_scratch.recaptions,
        scores=from_scratch.scores,
        first=[],
        audits=[],
        captions=from_scratch.texts(dag.repair.corpus_texts()),
        truth=steady(dag.truth_of_all()),
    output:
        repaired=f"{SCRATCH}/{{repair}}.parquet",
        ledger=f"{SCRATCH}/{{repair}}.json",
    log:
        "logs/filter_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.log",
    benchmark:
        "benchmarks/filter_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.tsv"
    message:
        "Filter captions by the rule {wildcards.repair}: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


use rule train_small_towers as train_repaired_towers with:
    input:
        pictures=PICTURES,
        index=dag.index(),
        pairing=f"{SCRATCH}/{{repair}}.parquet",
        captions=from_scratch.written,
    output:
        towers=f"{SCRATCH}/{{repair}}/towers.safetensors",
    log:
        "logs/train_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.log",
    benchmark:
        "benchmarks/train_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.tsv"
    message:
        "Train towers on captions of the rule {wildcards.repair}: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


use rule measure_mixing as measure_repaired_towers with:
    input:
        towers=f"{SCRATCH}/{{repair}}/towers.safetensors",
        pictures=PICTURES,
        corpus="results/pairs/{corpus}/corpus.parquet",
        index=dag.index(),
        truth=steady(dag.truth_of_all()),
        evaluation_sets=dag.pretraining.evaluation_sets(),
    output:
        mixing=f"{SCRATCH}/{{repair}}/mixing.json",
    log:
        "logs/measure_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.log",
    benchmark:
        "benchmarks/measure_repaired_towers/{corpus}/{scheme}~{rate}/draw~{draw}/{repair}.tsv"
    message:
        "Measure the towers of the rule {wildcards.repair}: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


rule encode_small_towers:
    input:
        towers=f"{RAW}/towers.safetensors",
        pictures=PICTURES,
        corpus="results/pairs/{corpus}/corpus.parquet",
        captions=[*dag.repair.corpus_texts(), f"{DRAWN}/captions.parquet"],
    output:
        image_features=from_scratch.features(dag, "safetensors"),
        image_rows=from_scratch.features(dag, "parquet"),
        text_features=f"{RAW}/features/captions.safetensors",
        text_rows=f"{RAW}/features/captions.parquet",
        projection=f"{RAW}/projection.safetensors",
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
        corpus="results/pairs/{corpus}/corpus.parquet",
        features=from_scratch.features(dag, "safetensors"),
        rows=from_scratch.features(dag, "parquet"),
        trusted="results/repair/{corpus}/trusted.parquet",
        towers=f"{RAW}/towers.safetensors",
        index=[],
        shards=[],
    output:
        recaptions=f"{RAW}/recaptions/all.parquet",
        record="logs/recaption_pairs_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.json",
    log:
        "logs/recaption_pairs_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/recaption_pairs_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    params:
        *code_version("recaption_pairs"),
        stamps="",
        sources=[],
        features=lambda wildcards, input: " ".join(input.features),
        rows=lambda wildcards, input: " ".join(input.rows),
        flags=literal(dag.flags("recaption_pairs")),
    message:
        "Write new captions for the pictures of {wildcards.corpus}: rate {wildcards.rate}, draw {wildcards.draw}"


use rule gather_recaptions as gather_recaptions_of_draw with:
    input:
        parts=f"{RAW}/recaptions/all.parquet",
    output:
        recaptions=f"{RAW}/recaptions.parquet",
        texts=f"{RAW}/recaption_texts.parquet",
    log:
        "logs/gather_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/gather_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"


use rule encode_small_towers as encode_recaptions_of_draw with:
    input:
        towers=f"{RAW}/towers.safetensors",
        pictures=[],
        corpus=[],
        captions=f"{RAW}/recaption_texts.parquet",
    output:
        image_features=[],
        image_rows=[],
        text_features=f"{RAW}/features/recaptions.safetensors",
        text_rows=f"{RAW}/features/recaptions.parquet",
        projection=[],
    log:
        "logs/encode_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/encode_recaptions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    message:
        "Encode new captions of {wildcards.corpus}: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


use rule score_captions as score_captions_of_draw with:
    input:
        pairing=f"{SCRATCH}/raw.parquet",
        recaptions=f"{RAW}/recaptions.parquet",
        features=[
            *from_scratch.features(dag, "safetensors"),
            f"{RAW}/features/captions.safetensors",
        ],
        rows=[*from_scratch.features(dag, "parquet"), f"{RAW}/features/captions.parquet"],
        written_features=[],
        written_rows=[],
        new_features=f"{RAW}/features/recaptions.safetensors",
        new_rows=f"{RAW}/features/recaptions.parquet",
        projection=f"{RAW}/projection.safetensors",
        trusted="results/repair/{corpus}/trusted.parquet",
    output:
        scores=f"{RAW}/scores.safetensors",
    log:
        "logs/score_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.log",
    benchmark:
        "benchmarks/score_captions_of_draw/{corpus}/{scheme}~{rate}/draw~{draw}.tsv"
    params:
        *code_version("score_captions"),
        features=lambda wildcards, input: " ".join(input.features),
        rows=lambda wildcards, input: " ".join(input.rows),
    message:
        "Score captions by towers of raw captions: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"
