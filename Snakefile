# `snakemake --cores N` runs the studies that config.yaml names and writes reports/index.html.
include: "workflow/Snakefile"


# Snakemake takes no default target from a file that is included.
rule default:
    default_target: True
    input:
        rules.all.input,
    message:
        "Everything is there"
