# Several pairs of towers, each a replicate of the image-text study. Towers of further seeds are
# trained on scenes of another seed than those that are fine-tuned.


use rule make_scenes as make_scenes_of_towers with:
    output:
        shards=expand(
            f"{pairs.SCENES_OF_TOWERS}/{{name}}.{{kind}}",
            name=dag.generated_shard_names,
            kind=["tar", "parquet"],
        ),
        statistics=expand(
            f"{pairs.SCENES_OF_TOWERS}/{{name}}_stats.json", name=dag.generated_shard_names
        ),
    log:
        "logs/make_scenes_of_towers.log",
    benchmark:
        "benchmarks/make_scenes_of_towers.tsv"
    params:
        flags=literal(dag.scenes_of_towers()),
    message:
        "Render the scenes on which towers are trained"


use rule pretrain_towers as pretrain_towers_of_seed with:
    input:
        shards=expand(f"{pairs.SCENES_OF_TOWERS}/{{name}}.tar", name=dag.generated_shard_names),
        definition=steady(dag.tower_definition),
        start=steady(dag.models.start),
    output:
        towers=towers.TOWERS_OF_SEED,
    log:
        "logs/pretrain_towers_of_seed/{seed}.log",
    benchmark:
        "benchmarks/pretrain_towers_of_seed/{seed}.tsv"
    wildcard_constraints:
        seed="[0-9]+",
    params:
        stamps=dag.stamps(dag.models.start, dag.tower_definition),
        flags=lambda wildcards: dag.training_of_seed(wildcards),
    message:
        "Train towers with seed {wildcards.seed}"


rule compare_towers:
    input:
        purity=dag.measured(evaluation.PURITY, towers=dag.models.replicates),
        zeroshot=dag.measured(evaluation.ZEROSHOT, towers=dag.models.replicates),
        semantics=dag.measured(evaluation.SEMANTICS, towers=dag.models.replicates),
    output:
        comparison=image_text.COMPARED_TOWERS,
    log:
        "logs/compare_towers/{corpus}.log",
    benchmark:
        "benchmarks/compare_towers/{corpus}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("compare_towers"),
        flags=literal(dag.flags("compare_towers")),
    message:
        "Compare pairs of towers, each a replicate"
    shell:
        "python -m mispair compare-towers --purity {input.purity:q} --zeroshot {input.zeroshot:q}"
        " --semantics {input.semantics:q} --comparison {output.comparison:q} {params.flags} > {log:q} 2>&1"
