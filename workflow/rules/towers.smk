# Towers: fetched, trained or shipped, then frozen and run once over all images and captions. Both
# projections are fine-tuned on these features, all seeds of an arm in one job.


use rule step as convert_checkpoint with:
    input:
        checkpoint=steady(dag.models.checkpoint),
    output:
        towers.CONVERTED_TOWERS,
    pathvars:
        job="convert_checkpoint/{model}",
    params:
        **dag.step(
            "convert_checkpoint",
            stamps=dag.stamps(dag.models.checkpoint),
            spec=dag.models.spec,
            towers=folder_of_output,
        ),


use rule step as pretrain_towers with:
    input:
        shards=steady(dag.training.shards, copied=True),
        definition=steady(dag.training.definition),
        start=steady(dag.models.start),
    output:
        towers=towers.TRAINED_TOWERS,
    pathvars:
        job="pretrain_towers",
    threads: dag.training.cores
    resources:
        gpu=dag.gpus("pretrain_towers"),
    params:
        **dag.step(
            "pretrain_towers",
            towers=folder_of_output,
            stamps=dag.stamps(dag.training.shards, dag.models.start, dag.training.definition),
        ),


use rule step as encode_features with:
    input:
        # No caption is among these inputs or theirs. Packed shards have them, but a job encodes no
        # picture again that a former one encoded.
        shards=steady(dag.pairs.shards_of),
        images=pairs.IMAGES,
        towers=steady(dag.tower_files),
    output:
        features=towers.IMAGE_FEATURES,
        rows=towers.IMAGE_ROWS,
        # The speed differs from run to run, so it is no result.
        record=towers.IMAGE_RECORD,
    pathvars:
        job="encode_features/{corpus}/{towers}/{group}",
    wildcard_constraints:
        towers=dag.encoded_apart,
    threads: 1 + dag.config.encode_features.workers
    resources:
        **dag.pairs.fetched(dag.pairs.shards_of),
        gpu=dag.gpus("encode_features"),
    params:
        **dag.step(
            "encode_features",
            workers=lambda wildcards, threads: threads - 1,
            stamps=dag.stamps(dag.pairs.shards_of, dag.tower_files),
            sources=dag.pairs.sources_of,
            **dag.pairs.streamed(dag.pairs.shards_of),
        ),
    message:
        "Encode images of group {wildcards.group} of {wildcards.corpus}"


use rule step as encode_captions with:
    input:
        captions=dag.texts,
        towers=steady(dag.tower_files),
    output:
        features=towers.TEXT_FEATURES,
        rows=towers.TEXT_ROWS,
        record=towers.TEXT_RECORD,
    pathvars:
        job="encode_captions/{corpus}/{towers}/{texts}",
    resources:
        gpu=dag.gpus("encode_captions"),
    params:
        **dag.step("encode_captions", stamps=dag.stamps(dag.tower_files)),


use rule list_files as list_features with:
    input:
        files=dag.of_towers(
            towers.IMAGE_FEATURES, towers.TEXT_FEATURES, towers.IMAGE_ROWS, towers.TEXT_ROWS
        ),
    output:
        listings=[towers.FEATURES_LIST, towers.ROWS_LIST],
    pathvars:
        job="list_files/{corpus}/{towers}",
    priority: 0


use rule step as extract_projection with:
    input:
        towers=steady(dag.tower_files),
    output:
        projection=towers.UNTOUCHED_PROJECTION,
    pathvars:
        job="extract_projection/{corpus}/{towers}",
    params:
        **dag.step("extract_projection", stamps=dag.stamps(dag.tower_files)),


use rule step as finetune_projection with:
    input:
        pairing=alone(dag.repair.pairing),
        features=joined(
            towers.FEATURES_LIST,
            dag.written(towers.WRITTEN_FEATURES),
            dag.repair.features(repair.NEW_FEATURES),
        ),
        feature_rows=joined(
            towers.ROWS_LIST,
            dag.written(towers.WRITTEN_ROWS),
            dag.repair.features(repair.NEW_ROWS),
        ),
        untouched=towers.UNTOUCHED_PROJECTION,
        weights=dag.weights,
        corpus=dag.corpus_of_draws,
    output:
        projection=towers.TUNED_PROJECTION,
    pathvars:
        job="finetune_projection/{corpus}/{towers}/{start}_{scheme}~{rate}",
    resources:
        gpu=dag.gpus("finetune_projection"),
    params:
        **dag.step("finetune_projection"),
    message:
        "Fine-tune {wildcards.start} projections on {wildcards.scheme} captions, rate {wildcards.rate}"


use rule step as measure_covariance with:
    input:
        features=dag.of_towers(towers.IMAGE_FEATURES, towers.TEXT_FEATURES),
    output:
        covariance=towers.COVARIANCE,
    pathvars:
        job="measure_covariance/{corpus}/{towers}",
    params:
        **dag.step("measure_covariance"),
