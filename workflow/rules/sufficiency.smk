# The joint generative hierarchical model: contrastive pre-training as approximate sufficiency.
wildcard_constraints:
    flip="[0-9.e-]+",
    head="frozen|shallow|untrained|oracle|joint",
    seed="[0-9]+",
    size="[0-9]+x[0-9]+x[0-9]+",
    task="cdm|vlm",
    tree="[0-9]+",
    variant="standard|guided|shallow",


use rule step as draw_trees with:
    output:
        trees=sufficiency.TREES,
    pathvars:
        job="draw_trees/{size}/tree~{tree}",
    params:
        **dag.step("draw_trees"),


use rule step as measure_bayes with:
    input:
        trees=sufficiency.TREES,
    output:
        bayes=sufficiency.BAYES,
    pathvars:
        job="measure_bayes/{size}/tree~{tree}",
    resources:
        gpu=dag.gpus("measure_bayes"),
    params:
        **dag.step("measure_bayes"),


use rule step as train_encoders with:
    input:
        trees=sufficiency.TREES,
    output:
        encoders=sufficiency.ENCODERS,
    pathvars:
        job="train_encoders/{size}/tree~{tree}/p~{flip}/seed~{seed}/{variant}",
    resources:
        gpu=dag.gpus("train_encoders"),
    params:
        **dag.step("train_encoders", checkpoint=resume_state),


use rule step as measure_sufficiency with:
    input:
        trees=sufficiency.TREES,
        encoders=dag.sufficiency.encoders_of,
    output:
        sufficiency=sufficiency.SUFFICIENCY,
    pathvars:
        job="measure_sufficiency/{size}/tree~{tree}/p~{flip}/seed~{seed}",
    resources:
        gpu=dag.gpus("measure_sufficiency"),
    params:
        **dag.step("measure_sufficiency"),


use rule step as train_head with:
    input:
        trees=sufficiency.TREES,
        encoders=dag.sufficiency.encoders_of_head,
    output:
        head=sufficiency.HEAD,
    pathvars:
        job="train_head/{size}/tree~{tree}/p~{flip}/seed~{seed}/{task}-{head}",
    resources:
        gpu=dag.gpus("train_head"),
    params:
        **dag.step("train_head", arm=lambda wildcards: wildcards.head, checkpoint=resume_state),


use rule step as measure_transfer with:
    input:
        trees=sufficiency.TREES,
        encoders=dag.sufficiency.encoders_of_heads,
        heads=dag.sufficiency.heads_of,
    output:
        transfer=sufficiency.TRANSFER,
    pathvars:
        job="measure_transfer/{size}/tree~{tree}/p~{flip}/seed~{seed}",
    resources:
        gpu=dag.gpus("measure_transfer"),
    params:
        **dag.step("measure_transfer"),


rule sufficiency:
    input:
        alone(lambda wildcards: dag.results("sufficiency")),
