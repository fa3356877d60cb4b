# What people read: tidy tables, figures and a site. Nothing here runs science.


rule gather_metrics:
    input:
        results=dag.results(),
    output:
        tables=report(
            dag.tables(),
            category="Tables",
            caption="../report/tables.rst",
        ),
    log:
        "logs/gather_metrics.log",
    benchmark:
        "benchmarks/gather_metrics.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *dag.report_code("gather_metrics", "rows"),
        folder=folder_of_output,
        models=literal(dag.models.described()),
    message:
        "Gather what was measured into tidy tables"
    shell:
        "python -m mispair gather-metrics --results {input.results:q} --models {params.models}"
        " --tables {params.folder:q} > {log:q} 2>&1"


rule export_metrics:
    input:
        tables=dag.tables(),
        trained=dag.trained(),
    output:
        tensorboard=directory(reports.TENSORBOARD),
    log:
        "logs/export_metrics.log",
    benchmark:
        "benchmarks/export_metrics.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *dag.report_code("export_metrics", "pages"),
        folder=folder_of_output,
        flags=literal(dag.flags("export_metrics")),
    message:
        "Export what was measured for other tools"
    shell:
        "python -m mispair export-metrics --tables {input.tables:q}"
        " --trained {input.trained:q} --folder {params.folder:q} {params.flags} > {log:q} 2>&1"


rule record_run:
    input:
        results=dag.ends(),
        provenance=reports.PROVENANCE,
    output:
        record=reports.RUN,
    log:
        "logs/record_run.log",
    benchmark:
        "benchmarks/record_run.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *dag.report_code("record_run"),
        benchmarks=benchmarks_of_report,
        # A function: Snakemake would take braces of a list of shards for wildcards.
        config=literal(dag.resolved()),
    message:
        "Record what the results were made with and from"
    shell:
        "python -m mispair record-run --results {input.results:q} --provenance {input.provenance:q}"
        " --config {params.config} --benchmarks {params.benchmarks:q} --record {output.record:q} > {log:q} 2>&1"


rule draw_figures:
    input:
        tables=dag.tables(),
        published=dated(dag.report_files("report/published/*.csv")),
        texts=lambda wildcards: dated(dag.texts_of(wildcards.study)),
    output:
        figures=report(
            directory(reports.FIGURES),
            patterns=["{figure}.svg"],
            category="Figures",
            caption="../report/figures.rst",
        ),
    log:
        "logs/draw_figures/{study}.log",
    benchmark:
        "benchmarks/draw_figures/{study}.tsv"
    wildcard_constraints:
        study="|".join(STUDIES),
    conda:
        "../../envs/environment.yaml"
    params:
        code=lambda wildcards: dag.report_code("draw_figures", "figures", study=wildcards.study),
        flags=literal(dag.flags("draw_figures")),
    message:
        "Draw the figures of {wildcards.study}"
    shell:
        "python -m mispair draw-figures --study {wildcards.study:q} --tables {input.tables:q}"
        " --figures {output.figures:q} {params.flags} > {log:q} 2>&1"


rule write_report:
    input:
        tables=dag.tables(),
        figures=dag.every(reports.FIGURES),
        record=reports.RUN,
        pieces=dag.pieces(),
        published=dated(dag.report_files("report/published/*.csv")),
        templates=dated(dag.report_files("report/templates/*", "*/report/texts.md.j2")),
    output:
        page=reports.PAGE,
        # Patterns keep the pages and what they share in one folder of Snakemake's report. A single
        # file would be in a folder of its own, away from what it links.
        pages=report(
            directory(reports.PAGES),
            patterns=["{page}.html", "assets/{script}.js"],
            category=lambda wildcards: dag.category(wildcards),
            labels=lambda wildcards: dag.labels(wildcards),
            caption="../report/page.rst",
        ),
        latex=directory(reports.LATEX),
        claims=reports.CLAIMS,
    log:
        "logs/write_report.log",
    benchmark:
        "benchmarks/write_report.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *dag.report_code("write_report", "pages"),
        benchmarks=benchmarks_of_report,
        flags=literal(dag.flags("write_report")),
    message:
        "Write the report: reports/index.html"
    shell:
        "python -m mispair write-report --tables {input.tables:q} --figures {input.figures:q}"
        " --pieces {input.pieces:q} --benchmarks {params.benchmarks:q}"
        " --record {input.record:q} --page {output.page:q} --pages {output.pages:q}"
        " --latex {output.latex:q} --claims {output.claims:q} {params.flags} > {log:q} 2>&1"
