# Image-text pairs, generated or indexed. A table by key gives each image its caption; no shard is
# rewritten.

# Images may be encoded before gather_index has counted the losses. If it stops the run, it should
# do so early: jobs that it waits for start before others.
BEFORE_ENCODING = 1
# It takes two cores: later, one would wait until the other is free, as long as a job of simulate.
# The scheduler adds up the priorities of jobs side by side, so this is more than any such sum.
AT_FIRST = 1000


use rule step as make_scenes with:
    output:
        dag.pairs.scenes(pairs.SCENES),
    pathvars:
        job="make_scenes",
    priority: AT_FIRST
    threads: 2
    params:
        **dag.step("make_scenes", corpus=folder_of_output),


# Of a folder with many pictures no file is an input: the stamp of a shard changes with its pairs.
use rule step as pack_pairs with:
    input:
        tables=steady(dag.pairs.tables_of_pairs()),
    output:
        shard=pairs.PACKED,
    pathvars:
        job="pack_pairs/{corpus}/{group}",
    priority: BEFORE_ENCODING
    params:
        **dag.step("pack_pairs", stamp=dag.pairs.packed_stamp, flags=dag.pairs.packing),


# With keep_local, and for trainings, which read shards often. Other jobs fetch what they read.
use rule step as fetch_shard with:
    output:
        local=pairs.REMOTE,
    pathvars:
        job="fetch_shard/{corpus}/{shard}",
    priority: BEFORE_ENCODING
    params:
        **dag.step("fetch_shard", flags=dag.pairs.fetching),


use rule step as read_captions with:
    input:
        table=steady(dag.pairs.caption_tables()),
        key_list=steady(dag.user_file("caption_keys")),
    output:
        captions=pairs.CAPTION_TABLE,
    pathvars:
        job="read_captions/{corpus}",
    priority: BEFORE_ENCODING
    params:
        **dag.step(
            "read_captions",
            stamps=dag.stamps(dag.pairs.caption_tables(), dag.user_file("caption_keys")),
        ),


# Image features depend on this rule, so it reads no caption: neither a caption table nor a setting
# of captions is among its inputs and parameters.
use rule step as list_images with:
    input:
        shards=steady(dag.pairs.shards_of),
    output:
        images=pairs.IMAGES,
        unusable=pairs.UNUSABLE,
    pathvars:
        job="list_images/{corpus}/{group}",
    wildcard_constraints:
        group=dag.pairs.groups_read_twice,
    priority: BEFORE_ENCODING
    threads: dag.config.index_shards.workers
    resources:
        # No parameter: it changes no result of a sound shard, so images are not encoded again.
        stall_seconds=str(dag.config.index_shards.stall_seconds),
    params:
        **dag.step(
            "list_images",
            stamps=dag.stamps(dag.pairs.shards_of),
            sources=dag.pairs.sources_of,
        ),


use rule step as index_shards with:
    input:
        shards=steady(dag.pairs.shards_of),
        downloads=steady(dag.pairs.downloads_of),
        images=pairs.IMAGES,
        unusable=pairs.UNUSABLE,
        captions=dag.captions(),
    output:
        index=pairs.INDEX,
        rejected=pairs.REJECTED,
    pathvars:
        job="index_shards/{corpus}/{group}",
    wildcard_constraints:
        group=dag.pairs.groups_read_twice,
    priority: BEFORE_ENCODING
    threads: dag.config.index_shards.workers
    params:
        **dag.step(
            "index_shards",
            stamps=dag.stamps(dag.pairs.shards_of, dag.pairs.downloads_of),
            sources=dag.pairs.sources_of,
        ),
    message:
        "Index shard group {wildcards.group} of {wildcards.corpus}"


# One fetch serves both lists of a group and its features: no copy of a remote shard stays.
use rule step as read_shards with:
    input:
        captions=dag.captions(),
        towers=steady(dag.main_towers),
    output:
        images=pairs.IMAGES,
        unusable=pairs.UNUSABLE,
        index=pairs.INDEX,
        rejected=pairs.REJECTED,
        features=fill(towers.IMAGE_FEATURES, towers=dag.towers or "none"),
        rows=fill(towers.IMAGE_ROWS, towers=dag.towers or "none"),
        # The speed differs from run to run, so it is no result.
        record=fill(towers.IMAGE_RECORD, towers=dag.towers or "none"),
    pathvars:
        job="encode_features+index_shards+list_images/{corpus}/{group}",
    wildcard_constraints:
        group=dag.pairs.groups_read_at_once,
    priority: BEFORE_ENCODING
    threads: max(dag.config.index_shards.workers, 1 + dag.config.encode_features.workers)
    resources:
        **dag.pairs.fetched(dag.pairs.shards_of),
        gpu=dag.gpus("encode_features"),
        stall_seconds=str(dag.config.index_shards.stall_seconds),
    params:
        **dag.step(
            "list_images",
            "index_shards",
            "encode_features",
            workers=lambda wildcards, threads: max(1, threads - 1),
            stamps=dag.stamps(dag.pairs.shards_of, dag.main_towers),
            sources=dag.pairs.sources_of,
            shards=dag.pairs.shards_of,
        ),
    message:
        "Read shard group {wildcards.group} of {wildcards.corpus}: index and encode"


# One file lists the files of many jobs, so that Snakemake looks for fewer files.
use rule step as list_files with:
    input:
        files=dag.every(pairs.INDEX) + dag.every(pairs.REJECTED),
    output:
        listings=[pairs.INDEX_LIST, pairs.REJECTED_LIST],
    pathvars:
        job="list_files/{corpus}",
    priority: BEFORE_ENCODING
    params:
        **dag.step("list_files"),
    message:
        "List the files in {output.listings}"


use rule step as gather_index with:
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
    pathvars:
        job=f"gather_index/{dag.corpus}",
    priority: BEFORE_ENCODING
    params:
        **dag.step("gather_index"),


use rule step as find_similar_captions with:
    input:
        corpus=pairs.CORPUS,
        index=dag.every(pairs.INDEX),
        features=dag.compared_features(towers.TEXT_FEATURES),
        feature_rows=dag.compared_features(towers.TEXT_ROWS),
    output:
        similar=pairs.SIMILAR,
    pathvars:
        job="find_similar_captions/{corpus}",
    resources:
        gpu=dag.gpus("find_similar_captions"),
    params:
        **dag.step("find_similar_captions"),


use rule step as corrupt_captions with:
    input:
        corpus=pairs.CORPUS,
        index=pairs.INDEX_LIST,
        similar=dag.similar_captions,
        truth=steady(dag.truth),
    output:
        pairing=pairs.PAIRING,
        captions=pairs.WRITTEN,
    pathvars:
        job="corrupt_captions/{corpus}/{scheme}~{rate}",
    params:
        **dag.step("corrupt_captions", stamps=dag.stamps(dag.truth), draws=dag.draws),


# All sets of a run in one process: each takes seconds.
use rule step as make_evaluation_set with:
    output:
        dag.evaluation_sets(),
    pathvars:
        job="make_evaluation_set",
    params:
        **dag.step("make_evaluation_set", call=making(dag.flags("make_evaluation_set"))),


use rule step as draw_contact_sheet with:
    input:
        shards=steady(dag.pairs.shards(1)),
        index=dag.every(pairs.INDEX),
        pairing=dag.every(pairs.PAIRING),
        captions=dag.every(pairs.WRITTEN),
        template=dated(of_report.piece_files("contact_sheet")),
    output:
        contact_sheet=pairs.CONTACT_SHEET,
    pathvars:
        job="draw_contact_sheet",
    params:
        **dag.step(
            "draw_contact_sheet",
            sources=dag.pairs.sources(1),
            **dag.pairs.streamed(dag.pairs.shards(1)),
        ),
