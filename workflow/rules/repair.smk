# The repair: new captions for the pictures of a corpus, rules that decide which captions are taken,
# and a fine-tuning on the result of each. The arms are measured by the rules of evaluation.smk.


wildcard_constraints:
    part="all|[0-9]+",
    repair="[a-z-]+",
    scorer="[^/~]+",


use rule step as trust_pairs with:
    input:
        pairing=dag.repair.original(),
        captions=dag.every(pairs.CAPTIONS),
        trusted_keys=steady(dag.user_file("trusted")),
        reviewed=steady(dag.user_file("reviewed")),
        left_out=[pairs.EXCLUDED, pairs.REJECTED_LIST],
    output:
        trusted=repair.TRUSTED,
    pathvars:
        job="trust_pairs/{corpus}",
    params:
        **dag.step(
            "trust_pairs",
            stamps=dag.stamps(dag.user_file("trusted"), dag.user_file("reviewed")),
        ),


use rule step as recaption_pairs with:
    input:
        corpus=pairs.CORPUS,
        features=dag.repair.of_trained(towers.FEATURES_LIST),
        feature_rows=dag.repair.of_trained(towers.ROWS_LIST),
        trusted=dag.repair.of_trained(repair.TRUSTED),
        towers=steady(dag.tower_files),
        index=dag.repair.index_of_part,
        shards=steady(dag.repair.shards_of_part),
        model=steady(dag.repair.captioner_files()),
    output:
        recaptions=repair.RECAPTIONS_OF_PART,
        # The speed differs from run to run, so it is no result.
        record=repair.RECAPTION_RECORD,
    pathvars:
        job="recaption_pairs/{corpus}/{towers}/{part}",
    resources:
        **dag.pairs.fetched(dag.repair.shards_of_part),
        gpu=dag.gpus("recaption_pairs"),
    params:
        **dag.step(
            "recaption_pairs",
            stamps=dag.stamps(
                dag.tower_files, dag.repair.shards_of_part, dag.repair.captioner_files()
            ),
            sources=dag.repair.sources_of_part,
            **dag.pairs.streamed(dag.repair.shards_of_part),
        ),


use rule step as gather_recaptions with:
    input:
        parts=dag.repair.recaption_parts(),
    output:
        recaptions=repair.RECAPTIONS,
        texts=repair.RECAPTION_TEXTS,
    pathvars:
        job="gather_recaptions/{corpus}/{towers}",
    params:
        **dag.step("gather_recaptions"),


use rule step as score_captions with:
    input:
        pairing=repair.RAW,
        recaptions=repair.RECAPTIONS,
        features=joined(
            dag.repair.scorer(towers.FEATURES_LIST),
            dag.repair.written_for_scorer(towers.WRITTEN_FEATURES),
            dag.repair.scorer(repair.NEW_FEATURES),
        ),
        feature_rows=joined(
            dag.repair.scorer(towers.ROWS_LIST),
            dag.repair.written_for_scorer(towers.WRITTEN_ROWS),
            dag.repair.scorer(repair.NEW_ROWS),
        ),
        projection=dag.repair.scorer(towers.PROJECTION),
        trusted=repair.TRUSTED,
    output:
        scores=repair.SCORES,
    pathvars:
        job="score_captions/{corpus}/{towers}/{scheme}~{rate}~{scorer}",
    params:
        **dag.step("score_captions"),


# The audit of all pairs of each draw, for the rule that decides by it.
use rule weigh_pairs as judge_pairs with:
    input:
        **READ_WITH_A_PAIRING,
        pairing=repair.RAW,
    output:
        weights=repair.WEIGHTS,
    pathvars:
        job="judge_pairs/{corpus}/{towers}/{scheme}~{rate}",
    params:
        flags=dag.repair.judging(),


use rule step as filter_captions with:
    input:
        pairing=pairs.PAIRING,
        original=dag.repair.original(),
        trusted=repair.TRUSTED,
        recaptions=dag.repair.new_captions,
        scores=dag.repair.scores,
        audits=dag.repair.audits,
        captions=dag.repair.texts,
        truth=steady(dag.truth_of_all()),
    output:
        repaired=repair.REPAIRED,
        ledger=repair.LEDGER,
    pathvars:
        job="filter_captions/{corpus}/{towers}/{scheme}~{rate}/{repair}",
    params:
        **dag.step(
            "filter_captions",
            rule=lambda wildcards: wildcards.repair,
            stamps=dag.stamps(dag.truth_of_all()),
            flags=dag.repair.deciding,
        ),
    message:
        "Filter captions by the rule {wildcards.repair}: {wildcards.scheme}, rate {wildcards.rate}"


use rule step as compare_repairs with:
    input:
        answers=dag.repair.answers(),
    output:
        comparison=repair.COMPARISON,
    pathvars:
        job="compare_repairs/{corpus}/{towers}",
    params:
        **dag.step("compare_repairs"),


use rule step as draw_examples with:
    input:
        ledgers=lambda wildcards: dag.repair.ledgers(),
        index=dag.every(pairs.INDEX),
        shards=steady(dag.pairs.shards()),
        template=dated(of_report.piece_files("examples")),
    output:
        examples=repair.EXAMPLES,
    pathvars:
        job="draw_examples",
    params:
        **dag.step(
            "draw_examples",
            sources=dag.pairs.sources(),
            **dag.pairs.streamed(dag.pairs.shards()),
        ),


use rule step as export_repaired with:
    input:
        repaired=repair.REPAIRED,
        ledger=repair.LEDGER,
        captions=dag.repair.texts,
        index=pairs.INDEX_LIST,
    output:
        export=directory(repair.EXPORT),
    pathvars:
        job="export_repaired/{corpus}/{towers}/{scheme}~{rate}/{repair}",
    params:
        **dag.step("export_repaired"),


rule repair:
    input:
        alone(lambda wildcards: dag.repair.files()),
        dag.repair.exports(),
