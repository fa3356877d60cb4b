# What people look at of the corpus and of the neurons, and the target of the study.


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


# All results of the study, without the report.
rule image_text:
    input:
        lambda wildcards: dag.refuse_unlisted("image_text"),
        dag.results("image_text"),


localrules:
    image_text,
