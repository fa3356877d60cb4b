# Measurements of arms. Evaluation sets are encoded once; every further arm is a matrix product.
# Neurons: how much they overlap, which features they follow, and which accuracy is left without some.


# One process measures an arm: imports take as long as the work. All arms have these measures.
# Logs and benchmarks of a rule with several steps are in a folder with the names of all.
rule measure_arm:
    input:
        projection=towers.PROJECTION,
        covariance=dag.covariance,
        images=dag.test_images,
        prompts=dag.prompts,
    output:
        purity=evaluation.PURITY,
        zeroshot=evaluation.ZEROSHOT,
        answers=evaluation.ANSWERS,
    log:
        "logs/evaluate_zeroshot+measure_purity/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/evaluate_zeroshot+measure_purity/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *dag.code_of("measure_purity", "evaluate_zeroshot"),
        purity=literal(dag.flags("measure_purity")),
        covariance=lambda wildcards, input: "".join(
            f" --covariance {path}" for path in input.covariance
        ),
    message:
        "Measure {wildcards.arm} of {wildcards.towers}: purity, and zero-shot on every evaluation set"
    shell:
        "python -m mispair measure-purity --projection {input.projection:q}"
        "{params.covariance} --purity {output.purity:q} {params.purity} + evaluate-zeroshot"
        " --projection {input.projection:q} --images {input.images:q}"
        " --prompts {input.prompts:q} --zeroshot {output.zeroshot:q} --answers {output.answers:q} > {log:q} 2>&1"


rule measure_semantics:
    input:
        projection=towers.PROJECTION,
        index=dag.every(pairs.INDEX),
        features=dag.of_towers(towers.IMAGE_FEATURES, towers.TEXT_FEATURES),
        rows=dag.of_towers(towers.IMAGE_ROWS, towers.TEXT_ROWS),
        truth=steady(dag.truth_of_all()),
    output:
        semantics=evaluation.SEMANTICS,
    log:
        "logs/measure_semantics/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/measure_semantics/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("measure_semantics"),
        flags=literal(dag.flags("measure_semantics")),
    message:
        "Measure which true features the neurons of {wildcards.arm} follow"
    shell:
        "python -m mispair measure-semantics --projection {input.projection:q}"
        " --index {input.index:q} --features {input.features:q} --feature-rows {input.rows:q}"
        " --truth {input.truth:q} --semantics {output.semantics:q} {params.flags} > {log:q} 2>&1"


rule prune_neurons:
    input:
        projection=towers.PROJECTION,
        images=dag.test_images,
        prompts=dag.prompts,
    output:
        pruning=evaluation.PRUNING,
    log:
        "logs/prune_neurons/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/prune_neurons/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("prune_neurons"),
        flags=literal(dag.flags("prune_neurons")),
    message:
        "Prune the neurons of {wildcards.arm} by purity and by chance"
    shell:
        "python -m mispair prune-neurons --projection {input.projection:q}"
        " --images {input.images:q} --prompts {input.prompts:q} --pruning {output.pruning:q}"
        " {params.flags} > {log:q} 2>&1"


# The sets of users have a job for each split and each protocol. Those that mispair generates are
# small: one job encodes their images, and one their prompts.
rule encode_evaluation:
    input:
        evaluation_set=steady(dag.evaluation.images_of),
        towers=steady(dag.tower_files),
    output:
        evaluation.SET_FEATURES,
    log:
        "logs/encode_evaluation/{towers}/{evaluation_set}/{split}.log",
    benchmark:
        "benchmarks/encode_evaluation/{towers}/{evaluation_set}/{split}.tsv"
    wildcard_constraints:
        evaluation_set=dag.evaluation.of_user,
    conda:
        "../../envs/environment.yaml"
    threads: 1 + dag.config.encode_evaluation.workers
    resources:
        gpu=dag.gpus("encode_evaluation"),
    params:
        *code_version("encode_evaluation"),
        stamps=dag.stamps(dag.evaluation.images_of, dag.tower_files),
        flags=literal(dag.flags("encode_evaluation")),
        commands=dag.evaluation.encoding_images(dag.flags("encode_evaluation")),
    message:
        "Encode the images of {output} with {wildcards.towers}"
    shell:
        "python -m mispair {params.commands} > {log:q} 2>&1"


use rule encode_evaluation as encode_generated with:
    output:
        dag.evaluation.encoded("test") + dag.evaluation.encoded("train"),
    log:
        "logs/encode_evaluation/{towers}/generated.log",
    benchmark:
        "benchmarks/encode_evaluation/{towers}/generated.tsv"
    message:
        "Encode the images of the generated evaluation sets with {wildcards.towers}"


rule encode_prompts:
    input:
        evaluation_set=steady(dag.evaluation.texts_of),
        protocol=steady(dag.evaluation.protocol_files),
        towers=steady(dag.tower_files),
    output:
        evaluation.PROMPTS,
    log:
        "logs/encode_prompts/{towers}/{evaluation_set}/{protocol}.log",
    benchmark:
        "benchmarks/encode_prompts/{towers}/{evaluation_set}/{protocol}.tsv"
    wildcard_constraints:
        evaluation_set=dag.evaluation.of_user,
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("encode_prompts"),
    params:
        *code_version("encode_prompts"),
        stamps=dag.stamps(dag.evaluation.texts_of, dag.evaluation.protocol_files, dag.tower_files),
        flags=literal(dag.flags("encode_prompts")),
        commands=dag.evaluation.encoding_prompts(dag.flags("encode_prompts")),
    message:
        "Encode the prompts of {output} with {wildcards.towers}"
    shell:
        "python -m mispair {params.commands} > {log:q} 2>&1"


use rule encode_prompts as encode_generated_prompts with:
    output:
        dag.evaluation.encoded_prompts(),
    log:
        "logs/encode_prompts/{towers}/generated.log",
    benchmark:
        "benchmarks/encode_prompts/{towers}/generated.tsv"
    message:
        "Encode the prompts of the generated evaluation sets with {wildcards.towers}"


rule fit_linear_probe:
    input:
        projection=towers.PROJECTION,
        train=lambda wildcards: dag.evaluation.images(wildcards.towers, "train"),
        images=dag.test_images,
    output:
        probe=evaluation.PROBE,
    log:
        "logs/fit_linear_probe/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/fit_linear_probe/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("fit_linear_probe"),
        flags=literal(dag.flags("fit_linear_probe")),
    message:
        "Fit linear probes on the embeddings of {wildcards.arm}"
    shell:
        "python -m mispair fit-linear-probe --projection {input.projection:q} --train {input.train:q}"
        " --images {input.images:q} --probe {output.probe:q} {params.flags} > {log:q} 2>&1"


rule compare_arms:
    input:
        answers=dag.every(evaluation.ANSWERS),
    output:
        comparison=image_text.COMPARISON,
    log:
        "logs/compare_arms/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/compare_arms/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("compare_arms"),
        flags=literal(dag.flags("compare_arms")),
    message:
        "Compare the answers of all arms, image by image"
    shell:
        "python -m mispair compare-arms --zeroshot-answers {input.answers:q}"
        " --comparison {output.comparison:q} {params.flags} > {log:q} 2>&1"


rule draw_neurons:
    input:
        projection=dag.every(towers.UNTOUCHED_PROJECTION),
        index=dag.every(pairs.INDEX)[:SHOWN_GROUPS],
        shards=steady(dag.shards_of_first(SHOWN_GROUPS)),
        features=dag.every(towers.IMAGE_FEATURES)[:SHOWN_GROUPS],
        rows=dag.every(towers.IMAGE_ROWS)[:SHOWN_GROUPS],
        caption_features=dag.every(towers.TEXT_FEATURES),
        caption_rows=dag.every(towers.TEXT_ROWS),
        corpus=dag.every(pairs.CORPUS),
        template=dated(dag.report_files("report/templates/neurons.html.j2")),
    output:
        gallery=evaluation.NEURONS,
    log:
        "logs/draw_neurons.log",
    benchmark:
        "benchmarks/draw_neurons.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_neurons"),
        sources=dag.sources_of_shards(dag.shards_of_first(SHOWN_GROUPS)),
        flags=literal(dag.flags("draw_neurons")),
    message:
        "Lay out what activates the most and the least pure neurons most"
    shell:
        "python -m mispair draw-neurons --projection {input.projection:q} --index {input.index:q}"
        " --shards {input.shards:q} --sources {params.sources:q} --features {input.features:q} {input.caption_features:q}"
        " --feature-rows {input.rows:q} {input.caption_rows:q} --corpus {input.corpus:q} --gallery {output.gallery:q} {params.flags} > {log:q} 2>&1"
