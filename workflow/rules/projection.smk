# Fine-tuning of both projections on cached features, all seeds of a condition in one job.


rule finetune_projection:
    input:
        pairing="results/pairs/{corpus}/pairing/{scheme}~{rate}.parquet",
        features="results/features/{corpus}/{towers}/safetensors.sha256",
        rows="results/features/{corpus}/{towers}/parquet.sha256",
        written_features=dag.written("safetensors"),
        written_rows=dag.written("parquet"),
        untouched="results/arms/{corpus}/{towers}/untouched/projection.safetensors",
    output:
        projection="results/arms/{corpus}/{towers}/{start}_{scheme}~{rate}/projection.safetensors",
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
        flags=dag.flags("finetune_projection"),
    message:
        "Fine-tune {wildcards.start} projections on {wildcards.scheme} captions, rate {wildcards.rate}"
    shell:
        "python -m mispair finetune-projection --start {wildcards.start} --rate {wildcards.rate}"
        " --pairing {input.pairing} --features @{input.features:q} {input.written_features:q}"
        " --feature-rows @{input.rows:q} {input.written_rows:q}"
        " --untouched {input.untouched} --projection {output.projection}"
        " {params.flags} > {log} 2>&1"
