# The audit: how many captions are wrong, and which; tried with known shares on the same corpus.
from mispair.audit.dag import corpus as audited_corpus, files as audit_files, similar, weighing


use rule step as audit_pairs with:
    input:
        corpus=alone(audited_corpus(dag)),
        captions=dag.every(pairs.CAPTIONS),
        features=towers.FEATURES_LIST,
        feature_rows=towers.ROWS_LIST,
        projection=towers.UNTOUCHED_PROJECTION,
        similar=similar(dag),
        trusted=steady(dag.user_file("trusted")),
        left_out=[pairs.EXCLUDED, pairs.REJECTED_LIST],
        training=steady(dag.training_record()),
        shards=steady(dag.shards_to_compare(), copied=True),
    output:
        audit=audit.AUDIT,
        rates=audit.RATES,
    pathvars:
        job="audit_pairs/{corpus}/{towers}",
    resources:
        gpu=dag.gpus("audit_pairs"),
    params:
        **dag.step("audit_pairs", stamps=dag.stamps(dag.user_file("trusted"))),


use rule step as calibrate_audit with:
    input:
        corpus=pairs.CORPUS,
        captions=dag.every(pairs.CAPTIONS),
        features=towers.FEATURES_LIST,
        feature_rows=towers.ROWS_LIST,
        projection=towers.UNTOUCHED_PROJECTION,
        similar=pairs.SIMILAR,
        truth=steady(dag.truth_of_all()),
        training=steady(dag.training_record()),
        shards=steady(dag.shards_to_compare(), copied=True),
    output:
        calibration=audit.CALIBRATION,
    pathvars:
        job="calibrate_audit/{corpus}/{towers}",
    resources:
        gpu=dag.gpus("calibrate_audit"),
    params:
        **dag.step("calibrate_audit"),


use rule step as select_pairs with:
    input:
        audit=audit.AUDIT,
        rates=audit.RATES,
        captions=dag.every(pairs.CAPTIONS),
        index=pairs.INDEX_LIST,
        groups=steady(dag.user_file("groups")),
    output:
        lists=directory(audit.LISTS),
        selection=audit.SELECTION,
    pathvars:
        job="select_pairs/{corpus}/{towers}",
    params:
        **dag.step("select_pairs", stamps=dag.stamps(dag.user_file("groups"))),


use rule step as draw_suspects with:
    input:
        audit=dag.every(audit.AUDIT),
        captions=dag.every(pairs.CAPTIONS),
        index=dag.every(pairs.INDEX),
        shards=steady(dag.pairs.shards()),
        template=dated(of_report.piece_files("suspects")),
    output:
        suspects=audit.SUSPECTS,
    pathvars:
        job="draw_suspects",
    params:
        **dag.step(
            "draw_suspects",
            sources=dag.pairs.sources(),
            **dag.pairs.streamed(dag.pairs.shards()),
        ),


# What judges a pairing reads besides it.
READ_WITH_A_PAIRING = dict(
    features=joined(towers.FEATURES_LIST, dag.written(towers.WRITTEN_FEATURES)),
    feature_rows=joined(towers.ROWS_LIST, dag.written(towers.WRITTEN_ROWS)),
    untouched=towers.UNTOUCHED_PROJECTION,
    trusted=steady(dag.user_file("trusted")),
    left_out=[pairs.EXCLUDED, pairs.REJECTED_LIST],
    training=steady(dag.training_record()),
    shards=steady(dag.shards_to_compare(), copied=True),
)


use rule step as weigh_pairs with:
    input:
        **READ_WITH_A_PAIRING,
        pairing=pairs.PAIRING,
    output:
        weights=audit.WEIGHTS,
    pathvars:
        job="weigh_pairs/{corpus}/{towers}/{scheme}~{rate}",
    resources:
        gpu=dag.gpus("finetune_projection"),
    params:
        **dag.step("weigh_pairs", stamps=dag.stamps(dag.user_file("trusted")), flags=weighing(dag)),


rule audit:
    input:
        alone(lambda wildcards: audit_files(dag)),
