# Measurements of arms. Evaluation sets are encoded once; every further arm is a matrix product.
# Neurons: how much they overlap, which features they follow, and which accuracy is left without some.


# One process measures an arm: imports take as long as the work. All arms have these measures.
# Logs and benchmarks of a rule with several steps are in a folder with the names of all.
use rule step as measure_arm with:
    input:
        projection=towers.PROJECTION,
        covariance=dag.covariance,
        images=dag.test_images,
        prompts=dag.prompts,
    output:
        purity=evaluation.PURITY,
        zeroshot=evaluation.ZEROSHOT,
        answers=evaluation.ANSWERS,
    pathvars:
        job="evaluate_zeroshot+measure_purity/{corpus}/{towers}/{arm}",
    params:
        **dag.step("measure_purity", "evaluate_zeroshot"),
    message:
        "Measure {wildcards.arm} of {wildcards.towers}: purity, and zero-shot on every evaluation set"


use rule step as measure_semantics with:
    input:
        projection=towers.PROJECTION,
        index=dag.every(pairs.INDEX),
        features=dag.of_towers(towers.IMAGE_FEATURES, towers.TEXT_FEATURES),
        feature_rows=dag.of_towers(towers.IMAGE_ROWS, towers.TEXT_ROWS),
        truth=steady(dag.truth_of_all()),
    output:
        semantics=evaluation.SEMANTICS,
    pathvars:
        job="measure_semantics/{corpus}/{towers}/{arm}",
    params:
        **dag.step("measure_semantics"),


use rule step as prune_neurons with:
    input:
        projection=towers.PROJECTION,
        images=dag.test_images,
        prompts=dag.prompts,
    output:
        pruning=evaluation.PRUNING,
    pathvars:
        job="prune_neurons/{corpus}/{towers}/{arm}",
    params:
        **dag.step("prune_neurons"),


# The sets of users have a job for each split and each protocol. Those that mispair generates are
# small: one job encodes their images, and one their prompts.
use rule step as encode_evaluation with:
    input:
        evaluation_set=steady(dag.evaluation.images_of),
        towers=steady(dag.tower_files),
    output:
        evaluation.SET_FEATURES,
    pathvars:
        job="encode_evaluation/{towers}/{evaluation_set}/{split}",
    wildcard_constraints:
        evaluation_set=dag.evaluation.of_user,
    threads: 1 + dag.config.encode_evaluation.workers
    resources:
        gpu=dag.gpus("encode_evaluation"),
    params:
        **dag.step(
            "encode_evaluation",
            stamps=dag.stamps(dag.evaluation.images_of, dag.tower_files),
            call=dag.evaluation.encoding_images(dag.flags("encode_evaluation")),
        ),


use rule encode_evaluation as encode_generated with:
    output:
        dag.evaluation.encoded("test") + dag.evaluation.encoded("train"),
    pathvars:
        job="encode_evaluation/{towers}/generated",
    message:
        "Encode the images of the generated evaluation sets with {wildcards.towers}"


use rule step as encode_prompts with:
    input:
        evaluation_set=steady(dag.evaluation.texts_of),
        protocol=steady(dag.evaluation.protocol_files),
        towers=steady(dag.tower_files),
    output:
        evaluation.PROMPTS,
    pathvars:
        job="encode_prompts/{towers}/{evaluation_set}/{protocol}",
    wildcard_constraints:
        evaluation_set=dag.evaluation.of_user,
    resources:
        gpu=dag.gpus("encode_prompts"),
    params:
        **dag.step(
            "encode_prompts",
            stamps=dag.stamps(
                dag.evaluation.texts_of, dag.evaluation.protocol_files, dag.tower_files
            ),
            call=dag.evaluation.encoding_prompts(dag.flags("encode_prompts")),
        ),


use rule encode_prompts as encode_generated_prompts with:
    output:
        dag.evaluation.encoded_prompts(),
    pathvars:
        job="encode_prompts/{towers}/generated",
    message:
        "Encode the prompts of the generated evaluation sets with {wildcards.towers}"


use rule step as fit_linear_probe with:
    input:
        projection=towers.PROJECTION,
        train=lambda wildcards: dag.evaluation.images(wildcards.towers, "train"),
        images=dag.test_images,
    output:
        probe=evaluation.PROBE,
    pathvars:
        job="fit_linear_probe/{corpus}/{towers}/{arm}",
    params:
        **dag.step("fit_linear_probe"),


use rule step as compare_arms with:
    input:
        zeroshot_answers=dag.every(evaluation.ANSWERS),
    output:
        comparison=image_text.COMPARISON,
    pathvars:
        job="compare_arms/{corpus}/{towers}",
    params:
        **dag.step("compare_arms"),


use rule step as draw_neurons with:
    input:
        projection=dag.every(towers.UNTOUCHED_PROJECTION),
        index=dag.every(pairs.INDEX)[:SHOWN_GROUPS],
        shards=steady(dag.pairs.shards(SHOWN_GROUPS)),
        features=dag.every(towers.IMAGE_FEATURES)[:SHOWN_GROUPS] + dag.every(towers.TEXT_FEATURES),
        feature_rows=dag.every(towers.IMAGE_ROWS)[:SHOWN_GROUPS] + dag.every(towers.TEXT_ROWS),
        corpus=dag.every(pairs.CORPUS),
        template=dated(of_report.piece_files("neurons")),
    output:
        gallery=evaluation.NEURONS,
    pathvars:
        job="draw_neurons",
    params:
        **dag.step(
            "draw_neurons",
            sources=dag.pairs.sources(SHOWN_GROUPS),
            **dag.pairs.streamed(dag.pairs.shards(SHOWN_GROUPS)),
        ),
