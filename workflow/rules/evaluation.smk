# Measurements of arms. Evaluation sets are encoded once; every further arm is a matrix product.
# Neurons: how much they overlap, which features they follow, and which accuracy is left without some.


rule measure_purity:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        covariance=dag.covariance,
    output:
        purity="results/arms/{corpus}/{towers}/{arm}/purity.json",
    log:
        "logs/measure_purity/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/measure_purity/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("measure_purity"),
        flags=literal(dag.flags("measure_purity")),
        covariance=lambda wildcards, input: "".join(
            f" --covariance {path}" for path in input.covariance
        ),
    message:
        "Measure the purity of the neurons of {wildcards.arm}"
    shell:
        "python -m mispair measure-purity --projection {input.projection:q}"
        "{params.covariance} --purity {output.purity:q} {params.flags} > {log:q} 2>&1"


rule measure_semantics:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        index=dag.index(),
        features=lambda wildcards: dag.all_features("safetensors", wildcards.towers),
        rows=lambda wildcards: dag.all_features("parquet", wildcards.towers),
        truth=steady(dag.truth_of_all()),
    output:
        semantics="results/arms/{corpus}/{towers}/{arm}/semantics.json",
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
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        images=dag.test_images,
        prompts=dag.prompts,
    output:
        pruning="results/arms/{corpus}/{towers}/{arm}/pruning.json",
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


rule export_pruned:
    input:
        towers=steady(dag.tower_files),
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        images=dag.test_images,
        prompts=dag.prompts,
    output:
        pruned=directory("results/pruned/{corpus}/{towers}/{arm}/{strategy}~{ranking}~{k}"),
        # Sizes, scores and times differ from run to run, so they are no results.
        record="logs/export_pruned/{corpus}/{towers}/{arm}/{strategy}~{ranking}~{k}.json",
    log:
        "logs/export_pruned/{corpus}/{towers}/{arm}/{strategy}~{ranking}~{k}.log",
    benchmark:
        "benchmarks/export_pruned/{corpus}/{towers}/{arm}/{strategy}~{ranking}~{k}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("export_pruned"),
        stamps=dag.stamps(dag.tower_files),
        flags=literal(dag.flags("export_pruned")),
    message:
        "Write {wildcards.towers} with {wildcards.k} neurons of {wildcards.strategy}"
    shell:
        "python -m mispair export-pruned --towers {input.towers:q} --projection {input.projection:q}"
        " --images {input.images:q} --prompts {input.prompts:q} --strategy {wildcards.strategy:q}"
        " --ranked-by {wildcards.ranking:q} --k {wildcards.k:q} --pruned {output.pruned:q}"
        " --record {output.record:q} {params.flags} > {log:q} 2>&1"


rule identify_basis:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        index=dag.index()[:SHOWN_GROUPS],
        features=dag.features("safetensors")[:SHOWN_GROUPS],
        rows=dag.features("parquet")[:SHOWN_GROUPS],
        caption_features=dag.caption_features("safetensors"),
        caption_rows=dag.caption_features("parquet"),
        corpus=dag.gathered("corpus.parquet"),
        truth=steady(dag.truth_of_all()),
    output:
        basis="results/arms/{corpus}/{towers}/{arm}/basis.json",
    log:
        "logs/identify_basis/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/identify_basis/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("identify_basis"),
        flags=literal(dag.flags("identify_basis")),
    message:
        "Search for a basis that the embeddings of {wildcards.arm} identify"
    shell:
        "python -m mispair identify-basis --projection {input.projection:q}"
        " --index {input.index:q} --features {input.features:q} {input.caption_features:q}"
        " --feature-rows {input.rows:q} {input.caption_rows:q} --corpus {input.corpus:q}"
        " --truth {input.truth:q} --basis {output.basis:q} {params.flags} > {log:q} 2>&1"


rule encode_evaluation:
    input:
        evaluation_set=steady(dag.evaluation.images_of),
        towers=steady(dag.tower_files),
    output:
        evaluation_features="results/evaluation/{towers}/{evaluation_set}/{split}.safetensors",
    log:
        "logs/encode_evaluation/{towers}/{evaluation_set}/{split}.log",
    benchmark:
        "benchmarks/encode_evaluation/{towers}/{evaluation_set}/{split}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1 + dag.config.encode_evaluation.workers
    resources:
        gpu=dag.gpus("encode_evaluation"),
    params:
        *code_version("encode_evaluation"),
        stamps=dag.stamps(dag.evaluation.images_of, dag.tower_files),
        flags=literal(dag.flags("encode_evaluation")),
    message:
        "Encode the {wildcards.split} images of {wildcards.evaluation_set} with {wildcards.towers}"
    shell:
        "python -m mispair encode-evaluation --evaluation-set {input.evaluation_set:q}"
        " --name {wildcards.evaluation_set:q} --split {wildcards.split:q} --towers {input.towers:q} --workers $(({threads} - 1))"
        " --evaluation-features {output.evaluation_features:q} {params.flags} > {log:q} 2>&1"


rule encode_prompts:
    input:
        evaluation_set=steady(dag.evaluation.texts_of),
        protocol=steady(dag.evaluation.protocol_files),
        towers=steady(dag.tower_files),
    output:
        prompts="results/evaluation/{towers}/{evaluation_set}/prompts~{protocol}.safetensors",
    log:
        "logs/encode_prompts/{towers}/{evaluation_set}/{protocol}.log",
    benchmark:
        "benchmarks/encode_prompts/{towers}/{evaluation_set}/{protocol}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("encode_prompts"),
    params:
        *code_version("encode_prompts"),
        stamps=dag.stamps(dag.evaluation.texts_of, dag.evaluation.protocol_files, dag.tower_files),
        flags=literal(dag.flags("encode_prompts")),
    message:
        "Encode the prompts of {wildcards.evaluation_set} by protocol {wildcards.protocol}"
    shell:
        "python -m mispair encode-prompts --evaluation-set {input.evaluation_set:q}"
        " --name {wildcards.evaluation_set:q} --protocol {wildcards.protocol:q} --protocol-files {input.protocol:q}"
        " --towers {input.towers:q} --prompts {output.prompts:q} {params.flags} > {log:q} 2>&1"


rule evaluate_zeroshot:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        images=dag.test_images,
        prompts=dag.prompts,
    output:
        zeroshot="results/arms/{corpus}/{towers}/{arm}/zeroshot.json",
        answers="results/arms/{corpus}/{towers}/{arm}/answers.safetensors",
    log:
        "logs/evaluate_zeroshot/{corpus}/{towers}/{arm}.log",
    benchmark:
        "benchmarks/evaluate_zeroshot/{corpus}/{towers}/{arm}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("evaluate_zeroshot"),
        flags=literal(dag.flags("evaluate_zeroshot")),
    message:
        "Evaluate {wildcards.arm} of {wildcards.towers} zero-shot on every evaluation set"
    shell:
        "python -m mispair evaluate-zeroshot --projection {input.projection:q}"
        " --images {input.images:q} --prompts {input.prompts:q} --zeroshot {output.zeroshot:q}"
        " --answers {output.answers:q} {params.flags} > {log:q} 2>&1"


rule fit_linear_probe:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        train=lambda wildcards: dag.evaluation.images(wildcards.towers, "train"),
        images=dag.test_images,
    output:
        probe="results/arms/{corpus}/{towers}/{arm}/probe.json",
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
        answers=dag.answers(),
    output:
        comparison="results/arms/{corpus}/{towers}/comparison.json",
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
        projection=dag.untouched_projection(),
        index=dag.index()[:SHOWN_GROUPS],
        shards=steady(dag.shards_of_first(SHOWN_GROUPS)),
        features=dag.features("safetensors")[:SHOWN_GROUPS],
        rows=dag.features("parquet")[:SHOWN_GROUPS],
        caption_features=dag.caption_features("safetensors"),
        caption_rows=dag.caption_features("parquet"),
        corpus=dag.gathered("corpus.parquet"),
        template=dated(dag.report_files("report/templates/neurons.html.j2")),
    output:
        gallery="reports/figures/neurons.html",
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
