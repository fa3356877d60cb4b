# What all jobs have. Every rule of a step uses it: its files and wildcards have the names of the
# step's options (`mispair STEP --help`), and `dag.step` adds settings and what is no file.
rule step:
    log:
        log="<logs>/<job>.log",
        took="<benchmarks>/<job>.tsv",
    pathvars:
        job="step",
    conda:
        "../../envs/environment.yaml"
    params:
        title="Print the help of mispair",
        call="--help",
        flags="",
    message:
        "{params.title}"
    shell:
        "python -m mispair {params.call} {params.flags} --took {log.took:q} > {log.log:q} 2>&1"
