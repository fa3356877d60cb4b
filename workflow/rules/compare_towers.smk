# Several pairs of towers, each a replicate of the image-text study. Towers of further seeds are
# trained on scenes of another seed than those that are fine-tuned.


use rule make_scenes as make_scenes_of_towers with:
    output:
        dag.pairs.scenes(pairs.SCENES_OF_TOWERS),
    pathvars:
        job="make_scenes_of_towers",
    params:
        flags=dag.scenes_of_towers(),
    message:
        "Render the scenes on which towers are trained"


use rule pretrain_towers as pretrain_towers_of_seed with:
    input:
        shards=expand(f"{pairs.SCENES_OF_TOWERS}/{{name}}.tar", name=dag.pairs.generated_names),
        definition=steady(dag.tower_definition),
        start=steady(dag.models.start),
    output:
        towers=towers.TOWERS_OF_SEED,
    pathvars:
        job="pretrain_towers_of_seed/{seed}",
    wildcard_constraints:
        seed="[0-9]+",
    params:
        stamps=dag.stamps(dag.models.start, dag.tower_definition),
        flags=dag.training_of_seed,
    message:
        "Train towers with seed {wildcards.seed}"


use rule step as compare_towers with:
    input:
        purity=dag.measured(evaluation.PURITY, towers=dag.models.replicates),
        zeroshot=dag.measured(evaluation.ZEROSHOT, towers=dag.models.replicates),
        semantics=dag.measured(evaluation.SEMANTICS, towers=dag.models.replicates),
    output:
        comparison=image_text.COMPARED_TOWERS,
    pathvars:
        job="compare_towers/{corpus}",
    params:
        **dag.step("compare_towers"),
