# Towers: fetched, trained or shipped, then frozen and run once over all images and captions. Both
# projections are fine-tuned on these features, all seeds of an arm in one job.


rule convert_checkpoint:
    input:
        checkpoint=steady(dag.models.checkpoint),
    output:
        towers.CONVERTED_TOWERS,
    log:
        "logs/convert_checkpoint/{model}.log",
    benchmark:
        "benchmarks/convert_checkpoint/{model}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("convert_checkpoint"),
        stamps=dag.stamps(dag.models.checkpoint),
        spec=lambda wildcards: dag.models.spec(wildcards),
        folder=folder_of_output,
    message:
        "Convert the checkpoint {wildcards.model} into an open_clip folder"
    shell:
        "python -m mispair convert-checkpoint --spec {params.spec} --checkpoint {input.checkpoint:q}"
        " --towers {params.folder:q} > {log:q} 2>&1"


rule pretrain_towers:
    input:
        shards=steady(dag.training_shards),
        definition=steady(dag.tower_definition),
        start=steady(dag.models.start),
    output:
        towers=towers.TRAINED_TOWERS,
    log:
        "logs/pretrain_towers.log",
    benchmark:
        "benchmarks/pretrain_towers.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: dag.training_cores
    resources:
        gpu=dag.gpus("pretrain_towers"),
    params:
        *code_version("pretrain_towers"),
        folder=folder_of_output,
        stamps=dag.stamps(dag.training_shards, dag.models.start, dag.tower_definition),
        flags=literal(dag.flags("pretrain_towers")),
    message:
        "Train towers with open_clip's trainer"
    shell:
        "python -m mispair pretrain-towers --shards {input.shards:q}"
        " --start {input.start:q} --towers {params.folder:q} {params.flags} > {log:q} 2>&1"


rule encode_features:
    input:
        shards=steady(dag.shards_of),
        # No caption is among these inputs or theirs, so corrected captions encode no image again.
        images=pairs.IMAGES,
        towers=steady(dag.tower_files),
    output:
        features=towers.IMAGE_FEATURES,
        rows=towers.IMAGE_ROWS,
        # The speed differs from run to run, so it is no result.
        record=towers.IMAGE_RECORD,
    log:
        "logs/encode_features/{corpus}/{towers}/{group}.log",
    benchmark:
        "benchmarks/encode_features/{corpus}/{towers}/{group}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1 + dag.config.encode_features.workers
    resources:
        gpu=dag.gpus("encode_features"),
    params:
        *code_version("encode_features"),
        stamps=dag.stamps(dag.shards_of, dag.tower_files),
        sources=dag.sources_of,
        flags=literal(dag.flags("encode_features")),
    message:
        "Encode images of group {wildcards.group} of {wildcards.corpus}"
    shell:
        "python -m mispair encode-features --shards {input.shards:q} --sources {params.sources:q}"
        " --images {input.images:q} --towers {input.towers:q} --workers $(({threads} - 1)) --features {output.features:q}"
        " --rows {output.rows:q} --record {output.record:q} {params.flags} > {log:q} 2>&1"


rule encode_captions:
    input:
        captions=dag.texts,
        towers=steady(dag.tower_files),
    output:
        features=towers.TEXT_FEATURES,
        rows=towers.TEXT_ROWS,
        record=towers.TEXT_RECORD,
    log:
        "logs/encode_captions/{corpus}/{towers}/{texts}.log",
    benchmark:
        "benchmarks/encode_captions/{corpus}/{towers}/{texts}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("encode_captions"),
    params:
        *code_version("encode_captions"),
        stamps=dag.stamps(dag.tower_files),
        flags=literal(dag.flags("encode_captions")),
    message:
        "Encode {wildcards.texts} of {wildcards.corpus}"
    shell:
        "python -m mispair encode-captions --captions {input.captions:q} --towers {input.towers:q}"
        " --features {output.features:q} --rows {output.rows:q} --record {output.record:q}"
        " {params.flags} > {log:q} 2>&1"


use rule list_files as list_features with:
    input:
        files=dag.of_towers(
            towers.IMAGE_FEATURES, towers.TEXT_FEATURES, towers.IMAGE_ROWS, towers.TEXT_ROWS
        ),
    output:
        listings=[towers.FEATURES_LIST, towers.ROWS_LIST],
    log:
        "logs/list_files/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/list_files/{corpus}/{towers}.tsv"
    priority: 0


rule extract_projection:
    input:
        towers=steady(dag.tower_files),
    output:
        projection=towers.UNTOUCHED_PROJECTION,
    log:
        "logs/extract_projection/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/extract_projection/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("extract_projection"),
        stamps=dag.stamps(dag.tower_files),
    message:
        "Copy the untouched projections out of the towers"
    shell:
        "python -m mispair extract-projection --towers {input.towers:q}"
        " --projection {output.projection:q} > {log:q} 2>&1"


rule finetune_projection:
    input:
        pairing=dag.repair.pairing,
        features=towers.FEATURES_LIST,
        rows=towers.ROWS_LIST,
        written_features=dag.written(towers.WRITTEN_FEATURES),
        written_rows=dag.written(towers.WRITTEN_ROWS),
        new_features=dag.repair.features(repair.NEW_FEATURES, repair.FEATURES_AGAIN),
        new_rows=dag.repair.features(repair.NEW_ROWS, repair.ROWS_AGAIN),
        untouched=towers.UNTOUCHED_PROJECTION,
        weights=dag.weights,
        corpus=dag.corpus_of_draws,
    output:
        projection=towers.TUNED_PROJECTION,
    log:
        "logs/finetune_projection/{corpus}/{towers}/{start}_{scheme}~{rate}.log",
    benchmark:
        "benchmarks/finetune_projection/{corpus}/{towers}/{start}_{scheme}~{rate}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("finetune_projection"),
    params:
        *code_version("finetune_projection"),
        flags=literal(dag.flags("finetune_projection")),
    message:
        "Fine-tune {wildcards.start} projections on {wildcards.scheme} captions, rate {wildcards.rate}"
    shell:
        "python -m mispair finetune-projection --start {wildcards.start:q} --rate {wildcards.rate:q}"
        " --pairing {input.pairing:q} --features @{input.features:q} {input.written_features:q} {input.new_features:q}"
        " --feature-rows @{input.rows:q} {input.written_rows:q} {input.new_rows:q}"
        " --untouched {input.untouched:q} --weights {input.weights:q} --corpus {input.corpus:q}"
        " --projection {output.projection:q}"
        " {params.flags} > {log:q} 2>&1"


rule measure_covariance:
    input:
        features=dag.of_towers(towers.IMAGE_FEATURES, towers.TEXT_FEATURES),
    output:
        covariance=towers.COVARIANCE,
    log:
        "logs/measure_covariance/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/measure_covariance/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("measure_covariance"),
    message:
        "Measure how the features of {wildcards.corpus} vary"
    shell:
        "python -m mispair measure-covariance --features {input.features:q}"
        " --covariance {output.covariance:q} > {log:q} 2>&1"
