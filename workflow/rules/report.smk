# What people read: tidy tables, figures and a site. Nothing here runs science.


rule gather_metrics:
    input:
        purity=dag.measured("purity"),
        zeroshot=dag.measured("zeroshot"),
        pruning=dag.measured("pruning"),
        simulation=dag.simulations(),
        sufficiency=dag.companion("sufficiency"),
        pairings=dag.pairings(),
        index=dag.index(),
        rejected=dag.index("rejected.parquet"),
        excluded=dag.gathered("excluded.parquet"),
        statistics=dag.gathered("statistics.json"),
        records=dag.records(),
        probes=dag.measured("probe"),
        comparisons=dag.compared(),
        exported=dag.exported(),
        semantics=dag.measured("semantics"),
        bases=dag.measured("basis"),
        checkpoints=dag.checkpoints(),
        checkpoint_purity=dag.checkpoints("purity.json"),
        origins=dag.models.origins(),
        stepsize=dag.companion("stepsize"),
        pretraining=dag.pretraining.results(),
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
        folder=folder_of_output,
        models=dag.models.described(),
    message:
        "Gather what was measured into tidy tables"
    shell:
        "python -m mispair gather-metrics --purity {input.purity:q} --zeroshot {input.zeroshot:q}"
        " --pruning {input.pruning:q} --simulation {input.simulation:q}"
        " --sufficiency {input.sufficiency:q}"
        " --pairings {input.pairings:q} --index {input.index:q} --rejected {input.rejected:q}"
        " --excluded {input.excluded:q} --statistics {input.statistics:q}"
        " --records {input.records:q} --probes {input.probes:q}"
        " --comparisons {input.comparisons:q} --exported {input.exported:q}"
        " --semantics {input.semantics:q} --bases {input.bases:q}"
        " --checkpoint-zeroshot {input.checkpoints:q}"
        " --checkpoint-purity {input.checkpoint_purity:q}"
        " --checkpoint-origins {input.origins:q} --stepsize {input.stepsize:q}"
        " --pretraining {input.pretraining:q} --models {params.models}"
        " --tables {params.folder:q} > {log} 2>&1"


rule export_metrics:
    input:
        tables=dag.tables(),
        projections=dag.tuned(),
        training=dag.training_records(),
        published=dag.report_files("published/*.csv"),
    output:
        folders=[directory(folder) for folder in dag.exports()],
    log:
        "logs/export_metrics.log",
    benchmark:
        "benchmarks/export_metrics.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("export_metrics"),
        folder=folder_of_output,
        confidence=dag.config.write_report.confidence,
        flags=dag.flags("export_metrics"),
    message:
        "Export what was measured for other tools"
    shell:
        "python -m mispair export-metrics --tables {input.tables:q}"
        " --projections {input.projections:q} --training {input.training:q}"
        " --confidence {params.confidence} --folder {params.folder:q} {params.flags} > {log} 2>&1"


rule record_run:
    input:
        results=dag.ends(),
        provenance="reports/tables/provenance.csv",
    output:
        record="reports/run.json",
    log:
        "logs/record_run.log",
    benchmark:
        "benchmarks/record_run.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("record_run"),
        benchmarks=benchmarks_of_report,
        # A function: Snakemake would take braces of a list of shards for wildcards.
        config=lambda wildcards: dag.resolved(),
    message:
        "Record what the results were made with and from"
    shell:
        "python -m mispair record-run --results {input.results:q} --provenance {input.provenance}"
        " --config {params.config} --benchmarks {params.benchmarks:q} --record {output.record} > {log} 2>&1"


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
        prints=dag.figures("pdf", "png"),
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
        folder=folder_of_output,
        flags=dag.flags("draw_figures"),
    message:
        "Draw the figures"
    shell:
        "python -m mispair draw-figures --tables {input.tables:q} --figures {params.folder:q}"
        " {params.flags} > {log} 2>&1"


rule draw_contact_sheet:
    input:
        shards=steady(dag.shards_of_first(1)),
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
        sources=dag.sources_of_first(1),
        flags=dag.flags("draw_contact_sheet"),
    message:
        "Lay out sample pairs before and after shuffling"
    shell:
        "python -m mispair draw-contact-sheet --shards {input.shards:q} --sources {params.sources}"
        " --index {input.index:q} --pairing {input.pairing:q} --captions {input.captions:q} --contact-sheet {output.contact_sheet}"
        " {params.flags} > {log} 2>&1"


rule draw_neurons:
    input:
        projection=dag.untouched_projection(),
        index=dag.index()[:SHOWN_GROUPS],
        shards=steady(dag.shards_of_first(SHOWN_GROUPS)),
        features=dag.features("safetensors")[:SHOWN_GROUPS],
        rows=dag.features("parquet")[:SHOWN_GROUPS],
        caption_features=dag.caption_features("safetensors"),
        caption_rows=dag.caption_features("parquet"),
        corpus=dag.gathered("corpus.parquet"),
        template=dag.report_files("templates/neurons.html.j2"),
    output:
        gallery="reports/figures/neurons.html",
    log:
        "logs/draw_neurons.log",
    benchmark:
        "benchmarks/draw_neurons.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_neurons"),
        sources=dag.sources_of_first(SHOWN_GROUPS),
        flags=dag.flags("draw_neurons"),
    message:
        "Lay out what activates the most and the least pure neurons most"
    shell:
        "python -m mispair draw-neurons --projection {input.projection} --index {input.index:q}"
        " --shards {input.shards:q} --sources {params.sources} --features {input.features:q} {input.caption_features:q}"
        " --feature-rows {input.rows:q} {input.caption_rows:q} --corpus {input.corpus} --gallery {output.gallery} {params.flags} > {log} 2>&1"


rule write_report:
    input:
        tables=dag.tables(),
        figures=dag.figures(),
        record="reports/run.json",
        contact_sheet=dag.contact_sheets(),
        neurons=dag.gallery(),
        published=dag.report_files("published/*.csv"),
        templates=dag.report_files("templates/*"),
    output:
        page="reports/index.html",
        # Patterns keep the pages and what they share beside each other in Snakemake's report, in
        # which a file alone would lie in a folder of its own, away from what it links.
        pages=report(
            directory("reports/pages"),
            patterns=["{page}.html", "assets/{script}.js"],
            category=lambda wildcards: dag.category(wildcards),
            labels=lambda wildcards: dag.labels(wildcards),
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
        benchmarks=benchmarks_of_report,
        flags=dag.flags("write_report"),
    message:
        "Write the report: reports/index.html"
    shell:
        "python -m mispair write-report --tables {input.tables:q} --figures {input.figures:q}"
        " --contact-sheet {input.contact_sheet:q} --neurons {input.neurons:q} --benchmarks {params.benchmarks:q}"
        " --record {input.record} --page {output.page} --pages {output.pages}"
        " {params.flags} > {log} 2>&1"
