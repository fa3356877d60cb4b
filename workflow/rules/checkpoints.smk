# Models that others have trained, as local open_clip folders: every step after that is the same.


rule convert_checkpoint:
    input:
        checkpoint=steady(dag.models.checkpoint),
    output:
        CONVERTED_TOWERS,
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
        " --towers {params.folder:q} > {log} 2>&1"
