# Image-text pairs, generated or indexed. A table by key gives each image its caption; no shard is
# rewritten.

# Images may be encoded before gather_index has counted the losses. If it stops the run, it should
# do so early: jobs that it waits for start before others.
BEFORE_ENCODING = 1


rule make_scenes:
    output:
        shards=expand(
            f"{pairs.SCENES}/{{name}}.{{kind}}",
            name=dag.generated_shard_names,
            kind=["tar", "parquet"],
        ),
        statistics=expand(f"{pairs.SCENES}/{{name}}_stats.json", name=dag.generated_shard_names),
    log:
        "logs/make_scenes.log",
    benchmark:
        "benchmarks/make_scenes.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 2
    params:
        *code_version("make_scenes"),
        folder=folder_of_output,
        flags=literal(dag.flags("make_scenes")),
    message:
        "Render the scenes corpus and write it as tar shards"
    shell:
        "python -m mispair make-scenes --corpus {params.folder:q} {params.flags} > {log:q} 2>&1"


# Of a folder with many pictures no file is an input: the stamp of a shard changes with its pairs.
rule pack_pairs:
    input:
        tables=steady(dag.tables_of_pairs()),
    output:
        shard=pairs.PACKED,
    log:
        "logs/pack_pairs/{corpus}/{group}.log",
    benchmark:
        "benchmarks/pack_pairs/{corpus}/{group}.tsv"
    priority: BEFORE_ENCODING
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("pack_pairs"),
        stamp=dag.packed_stamp,
        flags=dag.packing,
    message:
        "Pack pairs of {wildcards.corpus} into shard {wildcards.group}"
    shell:
        "python -m mispair pack-pairs --tables {input.tables:q} --shard {output.shard:q}"
        " {params.flags} > {log:q} 2>&1"


rule read_captions:
    input:
        table=steady(dag.caption_tables()),
        key_list=steady(dag.user_file("caption_keys")),
    output:
        captions=pairs.CAPTION_TABLE,
    log:
        "logs/read_captions/{corpus}.log",
    benchmark:
        "benchmarks/read_captions/{corpus}.tsv"
    priority: BEFORE_ENCODING
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("read_captions"),
        stamps=dag.stamps(dag.caption_tables(), dag.user_file("caption_keys")),
        flags=literal(dag.flags("read_captions")),
    message:
        "Read the table of captions of {wildcards.corpus}"
    shell:
        "python -m mispair read-captions --table {input.table:q} --keys {input.key_list:q}"
        " --captions {output.captions:q} {params.flags} > {log:q} 2>&1"


# Image features depend on this rule, so it reads no caption: neither a caption table nor a setting
# of captions is among its inputs and parameters.
rule list_images:
    input:
        shards=steady(dag.shards_of),
    output:
        images=pairs.IMAGES,
        unusable=pairs.UNUSABLE,
    log:
        "logs/list_images/{corpus}/{group}.log",
    benchmark:
        "benchmarks/list_images/{corpus}/{group}.tsv"
    priority: BEFORE_ENCODING
    conda:
        "../../envs/environment.yaml"
    threads: dag.config.index_shards.workers
    resources:
        # No parameter: it changes no result of a sound shard, so images are not encoded again.
        stall_seconds=str(dag.config.index_shards.stall_seconds),
    params:
        *code_version("list_images"),
        stamps=dag.stamps(dag.shards_of),
        sources=dag.sources_of,
        flags=literal(dag.image_limits()),
    message:
        "List the images of shard group {wildcards.group} of {wildcards.corpus}"
    shell:
        "python -m mispair list-images --shards {input.shards:q} --sources {params.sources:q}"
        " --workers {threads} --stall-seconds {resources.stall_seconds} --images {output.images:q} --unusable {output.unusable:q}"
        " {params.flags} > {log:q} 2>&1"


rule index_shards:
    input:
        shards=steady(dag.shards_of),
        downloads=steady(dag.downloads_of),
        images=pairs.IMAGES,
        unusable=pairs.UNUSABLE,
        captions=dag.captions(),
    output:
        index=pairs.INDEX,
        rejected=pairs.REJECTED,
    log:
        "logs/index_shards/{corpus}/{group}.log",
    benchmark:
        "benchmarks/index_shards/{corpus}/{group}.tsv"
    priority: BEFORE_ENCODING
    conda:
        "../../envs/environment.yaml"
    threads: dag.config.index_shards.workers
    params:
        *code_version("index_shards"),
        stamps=dag.stamps(dag.shards_of, dag.downloads_of),
        sources=dag.sources_of,
        flags=literal(dag.flags("index_shards")),
    message:
        "Index shard group {wildcards.group} of {wildcards.corpus}"
    shell:
        "python -m mispair index-shards --shards {input.shards:q} --sources {params.sources:q}"
        " --images {input.images:q} --unusable {input.unusable:q} --captions {input.captions:q}"
        " --workers {threads} --index {output.index:q} --rejected {output.rejected:q}"
        " {params.flags} > {log:q} 2>&1"


# One file lists the files of many jobs, so that Snakemake looks for fewer files.
rule list_files:
    input:
        files=dag.every(pairs.INDEX) + dag.every(pairs.REJECTED),
    output:
        listings=[pairs.INDEX_LIST, pairs.REJECTED_LIST],
    log:
        "logs/list_files/{corpus}.log",
    benchmark:
        "benchmarks/list_files/{corpus}.tsv"
    priority: BEFORE_ENCODING
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("list_files"),
    message:
        "List the files in {output.listings}"
    shell:
        "python -m mispair list-files --files {input.files:q} --listings {output.listings:q}"
        " > {log:q} 2>&1"


rule gather_index:
    input:
        index=fill(pairs.INDEX_LIST, corpus=dag.corpus),
        rejected=fill(pairs.REJECTED_LIST, corpus=dag.corpus),
        caption_table=dag.captions(),
    output:
        corpus=fill(pairs.CORPUS, corpus=dag.corpus),
        # No wildcard: each lookup of a file below results/pairs tries all patterns that have one.
        captions=dag.every(pairs.CAPTIONS),
        excluded=fill(pairs.EXCLUDED, corpus=dag.corpus),
        statistics=fill(pairs.STATISTICS, corpus=dag.corpus),
    log:
        f"logs/gather_index/{dag.corpus}.log",
    benchmark:
        f"benchmarks/gather_index/{dag.corpus}.tsv"
    priority: BEFORE_ENCODING
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("gather_index"),
        flags=literal(dag.flags("gather_index")),
    message:
        f"Count what {dag.corpus} holds, and stop if too much of it is damaged"
    shell:
        "python -m mispair gather-index --index @{input.index:q} --rejected @{input.rejected:q}"
        " --caption-table {input.caption_table:q} --corpus {output.corpus:q} --captions {output.captions:q} --excluded {output.excluded:q}"
        " --statistics {output.statistics:q} {params.flags} > {log:q} 2>&1"


rule find_similar_captions:
    input:
        corpus=pairs.CORPUS,
        index=dag.every(pairs.INDEX),
        features=dag.compared_features(towers.TEXT_FEATURES),
        rows=dag.compared_features(towers.TEXT_ROWS),
    output:
        similar=pairs.SIMILAR,
    log:
        "logs/find_similar_captions/{corpus}.log",
    benchmark:
        "benchmarks/find_similar_captions/{corpus}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("find_similar_captions"),
    params:
        *code_version("find_similar_captions"),
        flags=literal(dag.flags("find_similar_captions")),
    message:
        "Find the captions of {wildcards.corpus} that are most similar to each"
    shell:
        "python -m mispair find-similar-captions --corpus {input.corpus:q} --index {input.index:q}"
        " --features {input.features:q} --feature-rows {input.rows:q} --similar {output.similar:q}"
        " {params.flags} > {log:q} 2>&1"


rule corrupt_captions:
    input:
        corpus=pairs.CORPUS,
        index=pairs.INDEX_LIST,
        similar=dag.similar_captions,
        truth=steady(dag.truth),
    output:
        pairing=pairs.PAIRING,
        captions=pairs.WRITTEN,
    log:
        "logs/corrupt_captions/{corpus}/{scheme}~{rate}.log",
    benchmark:
        "benchmarks/corrupt_captions/{corpus}/{scheme}~{rate}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("corrupt_captions"),
        stamps=dag.stamps(dag.truth),
        flags=literal(dag.flags("corrupt_captions")),
        draws=dag.draws,
    message:
        "Corrupt captions of {wildcards.corpus}: {wildcards.scheme}, rate {wildcards.rate}"
    shell:
        "python -m mispair corrupt-captions --scheme {wildcards.scheme:q} --rate {wildcards.rate:q}"
        " --draws {params.draws} --corpus {input.corpus:q} --index @{input.index:q}"
        " --similar {input.similar:q} --truth {input.truth:q} --pairing {output.pairing:q} --captions {output.captions:q}"
        " {params.flags} > {log:q} 2>&1"


# All sets of a run in one process: each takes seconds.
rule make_evaluation_set:
    output:
        dag.evaluation_sets(),
    log:
        "logs/make_evaluation_set.log",
    benchmark:
        "benchmarks/make_evaluation_set.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("make_evaluation_set"),
        flags=literal(dag.flags("make_evaluation_set")),
        commands=making(dag.flags("make_evaluation_set")),
    message:
        "Write the evaluation sets"
    shell:
        "python -m mispair {params.commands} > {log:q} 2>&1"


rule draw_contact_sheet:
    input:
        shards=steady(dag.shards_of_first(1)),
        index=dag.every(pairs.INDEX),
        pairing=dag.every(pairs.PAIRING),
        captions=dag.every(pairs.WRITTEN),
        template=dated(dag.report_files("report/templates/contact_sheet.html.j2")),
    output:
        contact_sheet=pairs.CONTACT_SHEET,
    log:
        "logs/draw_contact_sheet.log",
    benchmark:
        "benchmarks/draw_contact_sheet.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_contact_sheet"),
        sources=dag.sources_of_shards(dag.shards_of_first(1)),
        flags=literal(dag.flags("draw_contact_sheet")),
    message:
        "Lay out sample pairs before and after shuffling"
    shell:
        "python -m mispair draw-contact-sheet --shards {input.shards:q} --sources {params.sources:q}"
        " --index {input.index:q} --pairing {input.pairing:q} --captions {input.captions:q} --contact-sheet {output.contact_sheet:q}"
        " {params.flags} > {log:q} 2>&1"
