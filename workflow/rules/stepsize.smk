# The stepsize study: a job has all stepsizes, seeds and widths of one data set and activation.
wildcard_constraints:
    part="[a-z]+",
    activation="[a-z_]+",
    data_set="[a-z0-9_]+",


use rule step as train_two_layer with:
    input:
        cifar=steady(dag.stepsize.cifar),
    output:
        measurements=stepsize.TWO_LAYER,
    pathvars:
        job="train_two_layer/{part}/{data_set}/{activation}",
    params:
        **dag.step(
            "train_two_layer",
            flags=lambda of: f"{dag.stepsize.part_flags(of)} {dag.flags('train_two_layer')}",
            stamps=dag.stamps(dag.stepsize.cifar),
            checkpoint=resume_state,
        ),


use rule step as train_multilayer with:
    input:
        cifar=steady(dag.stepsize.cifar),
    output:
        measurements=stepsize.MULTILAYER,
    pathvars:
        job="train_multilayer/{data_set}",
    params:
        **dag.step(
            "train_multilayer",
            stamps=dag.stamps(dag.stepsize.cifar),
            checkpoint=resume_state,
        ),


rule stepsize:
    input:
        alone(lambda wildcards: dag.results("stepsize")),
