# Neurons: how much they overlap, what they stand for, and what is left when some are taken away.


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
        flags=dag.flags("measure_purity"),
        covariance=lambda wildcards, input: "".join(
            f" --covariance {path}" for path in input.covariance
        ),
    message:
        "Measure the purity of the neurons of {wildcards.arm}"
    shell:
        "python -m mispair measure-purity --projection {input.projection}"
        "{params.covariance} --purity {output.purity} {params.flags} > {log} 2>&1"


rule measure_covariance:
    input:
        features=dag.all_features("safetensors"),
    output:
        covariance="results/features/{corpus}/{towers}/covariance/features.safetensors",
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
        " --covariance {output.covariance} > {log} 2>&1"


rule measure_semantics:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        index=dag.index(),
        features=dag.all_features("safetensors"),
        rows=dag.all_features("parquet"),
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
        flags=dag.flags("measure_semantics"),
    message:
        "Measure which true features the neurons of {wildcards.arm} stand for"
    shell:
        "python -m mispair measure-semantics --projection {input.projection}"
        " --index {input.index:q} --features {input.features:q} --feature-rows {input.rows:q}"
        " --truth {input.truth:q} --semantics {output.semantics} {params.flags} > {log} 2>&1"


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
        flags=dag.flags("prune_neurons"),
    message:
        "Prune the neurons of {wildcards.arm} by purity and by chance"
    shell:
        "python -m mispair prune-neurons --projection {input.projection}"
        " --images {input.images:q} --prompts {input.prompts:q} --pruning {output.pruning}"
        " {params.flags} > {log} 2>&1"


rule export_pruned:
    input:
        towers=steady(dag.tower_files),
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        images=dag.test_images,
        prompts=dag.prompts,
    output:
        pruned=directory("results/pruned/{corpus}/{towers}/{arm}/{strategy}~{ranking}~{k}"),
        # Sizes, scores and times: what differs from run to run is no result.
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
        flags=dag.flags("export_pruned"),
    message:
        "Write {wildcards.towers} with {wildcards.k} neurons of {wildcards.strategy}"
    shell:
        "python -m mispair export-pruned --towers {input.towers:q} --projection {input.projection}"
        " --images {input.images:q} --prompts {input.prompts:q} --strategy {wildcards.strategy}"
        " --ranked-by {wildcards.ranking} --k {wildcards.k} --pruned {output.pruned}"
        " --record {output.record} {params.flags} > {log} 2>&1"


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
        flags=dag.flags("identify_basis"),
    message:
        "Search for a basis that the embeddings of {wildcards.arm} identify"
    shell:
        "python -m mispair identify-basis --projection {input.projection}"
        " --index {input.index:q} --features {input.features:q} {input.caption_features:q}"
        " --feature-rows {input.rows:q} {input.caption_rows:q} --corpus {input.corpus}"
        " --truth {input.truth:q} --basis {output.basis} {params.flags} > {log} 2>&1"
