# Several pairs of towers, each a replicate of the image-text study. Towers of further seeds are
# trained on scenes of another seed than those that are fine-tuned.


use rule make_scenes as make_scenes_of_towers with:
    output:
        dag.pairs.scenes(pairs.SCENES_OF_TOWERS),
    pathvars:
        job="make_scenes_of_towers",
    params:
        flags=dag.training.scenes(),
    message:
        "Render the scenes on which towers are trained"


use rule pretrain_towers as pretrain_towers_of_seed with:
    input:
        shards=expand(f"{pairs.SCENES_OF_TOWERS}/{{name}}.tar", name=dag.pairs.generated_names),
        definition=steady(dag.training.definition),
        start=steady(dag.models.start),
    output:
        towers=towers.TOWERS_OF_SEED,
    pathvars:
        job="pretrain_towers_of_seed/{seed}",
    wildcard_constraints:
        seed="[0-9]+",
    params:
        stamps=dag.stamps(dag.models.start, dag.training.definition),
        flags=dag.training.of_seed,
    message:
        "Train towers with seed {wildcards.seed}"


use rule step as compare_towers with:
    input:
        purity=of_image_text.measured(dag, evaluation.PURITY, towers=dag.models.replicates),
        zeroshot=of_image_text.measured(dag, evaluation.ZEROSHOT, towers=dag.models.replicates),
        semantics=of_image_text.measured(dag, evaluation.SEMANTICS, towers=dag.models.replicates),
    output:
        comparison=image_text.COMPARED_TOWERS,
    pathvars:
        job="compare_towers/{corpus}",
    params:
        **dag.step("compare_towers"),
