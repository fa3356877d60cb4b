# What people read: tidy tables, figures and a site. Nothing here runs science.


use rule step as gather_metrics with:
    input:
        results=dag.results(),
    output:
        tables=report(of_report.tables(), category="Tables", caption="../report/tables.rst"),
    pathvars:
        job="gather_metrics",
    params:
        **dag.step(
            "gather_metrics",
            code=of_report.code("gather_metrics", "rows"),
            models=dag.models.described(),
            tables=folder_of_output,
        ),


use rule step as export_metrics with:
    input:
        tables=of_report.tables(),
        trained=of_image_text.trained(dag),
    output:
        tensorboard=directory(reports.TENSORBOARD),
    pathvars:
        job="export_metrics",
    params:
        **dag.step(
            "export_metrics",
            code=of_report.code("export_metrics", "pages"),
            folder=folder_of_output,
        ),


use rule step as record_run with:
    input:
        results=dag.ends(),
        provenance=reports.PROVENANCE,
    output:
        record=reports.RUN,
    pathvars:
        job="record_run",
    params:
        **dag.step(
            "record_run",
            code=of_report.code("record_run"),
            config=dag.config.model_dump_json(),
            benchmarks=benchmarks_of_report,
        ),


use rule step as draw_figures with:
    input:
        tables=of_report.tables(),
        published=dated(of_report.files("report/published/*.csv")),
        texts=lambda wildcards: dated(of_report.texts_of(wildcards.study)),
    output:
        figures=report(
            directory(reports.FIGURES),
            patterns=["{figure}.svg"],
            category="Figures",
            caption="../report/figures.rst",
        ),
    pathvars:
        job="draw_figures/{study}",
    wildcard_constraints:
        study="|".join(STUDIES),
    params:
        **dag.step(
            "draw_figures",
            code=lambda wildcards: of_report.code(
                "draw_figures", "figures", study=wildcards.study
            ),
        ),
    message:
        "Draw the figures of {wildcards.study}"


use rule step as write_report with:
    input:
        tables=of_report.tables(),
        figures=dag.every(reports.FIGURES),
        record=reports.RUN,
        pieces=dag.pieces(),
        published=dated(of_report.files("report/published/*.csv")),
        templates=dated(of_report.files("report/templates/*", "*/report/texts.md.j2")),
    output:
        page=reports.PAGE,
        # Patterns keep the pages and what they share in one folder of Snakemake's report. A single
        # file would be in a folder of its own, away from what it links.
        pages=report(
            directory(reports.PAGES),
            patterns=["{page}.html", "assets/{script}.js"],
            category=of_report.category,
            labels=of_report.labels,
            caption="../report/page.rst",
        ),
        latex=directory(reports.LATEX),
        claims=reports.CLAIMS,
    pathvars:
        job="write_report",
    params:
        **dag.step(
            "write_report",
            code=of_report.code("write_report", "pages"),
            benchmarks=benchmarks_of_report,
        ),
