# What people read: tidy tables, figures and one page. Nothing here runs science.


rule gather_metrics:
    input:
        purity=dag.measured("purity"),
        zeroshot=dag.measured("zeroshot"),
        pruning=dag.measured("pruning"),
        simulation=dag.simulations(),
        pairings=dag.pairings(),
        index=dag.index(),
        rejected=dag.index("rejected.parquet"),
        excluded=dag.gathered("excluded.parquet"),
        statistics=dag.gathered("statistics.json"),
        records=dag.records(),
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
        *code_version("gather_metrics"),
    message:
        "Gather what was measured into tidy tables"
    shell:
        "python -m mispair gather-metrics --purity {input.purity:q} --zeroshot {input.zeroshot:q}"
        " --pruning {input.pruning:q} --simulation {input.simulation:q}"
        " --pairings {input.pairings:q} --index {input.index:q} --rejected {input.rejected:q}"
        " --excluded {input.excluded:q} --statistics {input.statistics:q}"
        " --records {input.records:q}"
        " --tables reports/tables > {log} 2>&1"


rule draw_figures:
    input:
        tables=dag.tables(),
        published=dag.report_files("published/*.csv"),
    output:
        pictures=report(
            dag.figures("svg"),
            category="Figures",
            caption="../report/figures.rst",
        ),
        numbers=dag.figures("csv"),
        charts=dag.figures("vl.json"),
    log:
        "logs/draw_figures.log",
    benchmark:
        "benchmarks/draw_figures.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_figures"),
        flags=dag.flags("draw_figures"),
    message:
        "Draw the figures"
    shell:
        "python -m mispair draw-figures --tables {input.tables:q} --figures reports/figures"
        " {params.flags} > {log} 2>&1"


rule draw_contact_sheet:
    input:
        shards=dag.first_shards,
        index=dag.index(),
        pairing=dag.pairings(),
        captions=dag.written_captions(),
        template=dag.report_files("templates/contact_sheet.html.j2"),
    output:
        contact_sheet="reports/figures/contact_sheet.html",
    log:
        "logs/draw_contact_sheet.log",
    benchmark:
        "benchmarks/draw_contact_sheet.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_contact_sheet"),
        flags=dag.flags("draw_contact_sheet"),
    message:
        "Lay out sample pairs before and after shuffling"
    shell:
        "python -m mispair draw-contact-sheet --shards {input.shards:q} --index {input.index:q}"
        " --pairing {input.pairing:q} --captions {input.captions:q} --contact-sheet {output.contact_sheet}"
        " {params.flags} > {log} 2>&1"


rule write_report:
    input:
        tables=dag.tables(),
        figures=dag.figures(),
        contact_sheet=dag.contact_sheets(),
        published=dag.report_files("published/*.csv"),
        templates=dag.report_files("templates/*"),
    output:
        page=report(
            "reports/index.html",
            category="Report",
            caption="../report/page.rst",
        ),
    log:
        "logs/write_report.log",
    benchmark:
        "benchmarks/write_report.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("write_report"),
        flags=dag.flags("write_report"),
    message:
        "Write reports/index.html"
    shell:
        "python -m mispair write-report --tables {input.tables:q} --figures {input.figures:q}"
        " --contact-sheet {input.contact_sheet:q} --benchmarks benchmarks --page {output.page}"
        " {params.flags} > {log} 2>&1"
