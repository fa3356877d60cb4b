# Zero-shot evaluation: sets are encoded once, every arm after that is a matrix product.


rule make_evaluation_set:
    output:
        generated_files("scenes-shape"),
    log:
        "logs/make_evaluation_set/{evaluation_set}.log",
    benchmark:
        "benchmarks/make_evaluation_set/{evaluation_set}.tsv"
    wildcard_constraints:
        evaluation_set="scenes-shape|scenes-digit",
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("make_evaluation_set"),
        folder=folder_of_output,
        flags=dag.flags("make_evaluation_set"),
    message:
        "Write the evaluation set {wildcards.evaluation_set}"
    shell:
        "python -m mispair make-evaluation-set --name {wildcards.evaluation_set}"
        " --evaluation-set {params.folder:q} {params.flags} > {log} 2>&1"


# The same step for sets that consist of other files: no pictures for training, or no classes.
use rule make_evaluation_set as make_test_set with:
    output:
        generated_files("handwritten-digits"),
    wildcard_constraints:
        evaluation_set="scenes-.*-heldout|scenes-colour|handwritten-digits",


use rule make_evaluation_set as make_retrieval_set with:
    output:
        generated_files("scenes-retrieval"),
    wildcard_constraints:
        evaluation_set="scenes-retrieval",


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
        flags=dag.flags("encode_evaluation"),
    message:
        "Encode the {wildcards.split} images of {wildcards.evaluation_set} with {wildcards.towers}"
    shell:
        "python -m mispair encode-evaluation --evaluation-set {input.evaluation_set:q}"
        " --split {wildcards.split} --towers {input.towers:q} --workers $(({threads} - 1))"
        " --evaluation-features {output.evaluation_features} {params.flags} > {log} 2>&1"


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
        flags=dag.flags("encode_prompts"),
    message:
        "Encode the prompts of {wildcards.evaluation_set} by protocol {wildcards.protocol}"
    shell:
        "python -m mispair encode-prompts --evaluation-set {input.evaluation_set:q}"
        " --protocol {wildcards.protocol} --protocol-files {input.protocol:q}"
        " --towers {input.towers:q} --prompts {output.prompts} {params.flags} > {log} 2>&1"


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
        flags=dag.flags("evaluate_zeroshot"),
    message:
        "Evaluate {wildcards.arm} of {wildcards.towers} zero-shot on every evaluation set"
    shell:
        "python -m mispair evaluate-zeroshot --projection {input.projection}"
        " --images {input.images:q} --prompts {input.prompts:q} --zeroshot {output.zeroshot}"
        " --answers {output.answers} {params.flags} > {log} 2>&1"


rule fit_linear_probe:
    input:
        projection="results/arms/{corpus}/{towers}/{arm}/projection.safetensors",
        train=dag.train_images,
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
        flags=dag.flags("fit_linear_probe"),
    message:
        "Fit linear probes on the embeddings of {wildcards.arm}"
    shell:
        "python -m mispair fit-linear-probe --projection {input.projection} --train {input.train:q}"
        " --images {input.images:q} --probe {output.probe} {params.flags} > {log} 2>&1"


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
        flags=dag.flags("compare_arms"),
    message:
        "Compare the answers of all arms, image by image"
    shell:
        "python -m mispair compare-arms --zeroshot-answers {input.answers:q}"
        " --comparison {output.comparison} {params.flags} > {log} 2>&1"
