# CLIP against LaCLIP: the models of `models` measured, and printed next to what was published.


rule laclip:
    input:
        tables=dag.tables(),
        page=reports.PAGE,
    output:
        text=laclip.TEXT,
    log:
        "logs/laclip.log",
    benchmark:
        "benchmarks/laclip.tsv"
    localrule: True  # it prints
    conda:
        "../../envs/environment.yaml"
    params:
        *dag.report_code("laclip"),
    message:
        "Print what was measured next to what was published"
    shell:
        "python -m mispair laclip --tables {input.tables:q} --text {output.text:q} 2> {log:q}"
