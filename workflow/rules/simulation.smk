# The sparse-coding study: a job has some trials of one condition at one C_s.
import re


wildcard_constraints:
    first="[0-9]+",
    last="[0-9]+",
    spurious_probability="[0-9.e+-]+",


use rule step as simulate with:
    output:
        simulation=simulation.SIMULATION,
    pathvars:
        job="simulate/{condition}/cs~{spurious_probability}/trials~{first}-{last}",
    wildcard_constraints:
        condition="|".join(map(re.escape, dag.simulation.conditions)),
    priority: 1  # these jobs are long: the last of them would run alone
    params:
        **dag.step(
            "simulate",
            flags=dag.simulation.flags,
            arms=dag.simulation.arms,
            trials=dag.simulation.trials,
            checkpoint=resume_state,
        ),
    message:
        "Simulate {wildcards.condition} at C_s = {wildcards.spurious_probability},"
        " trials {wildcards.first} to {wildcards.last}, on {params.arms}"


rule simulation:
    input:
        alone(lambda wildcards: dag.refuse_unlisted("simulation")),
        dag.results("simulation"),
