# Checked by eye: a random sample of pairs for a person, and what the labels measure. No label is an
# input of the draw or of the audit, whose probabilities are its strata.
from mispair.review import dag as of_review


use rule step as draw_review with:
    input:
        corpus=pairs.CORPUS,
        captions=dag.every(pairs.CAPTIONS),
        audit=of_review.audited(dag, audit.AUDIT),
        kept=steady(of_review.kept(dag)),
    output:
        sample=review.SAMPLE,
        strata=review.STRATA,
    pathvars:
        job="draw_review/{corpus}/{towers}",
    params:
        **dag.step("draw_review", stamps=dag.stamps(of_review.kept(dag))),


use rule step as measure_review with:
    input:
        sample=review.SAMPLE,
        reviewed=steady(dag.user_file("reviewed")),
        truth=steady(of_review.truth(dag)),
        audit=of_review.audited(dag, audit.AUDIT),
    output:
        review=review.REVIEW,
        pairs=review.PAIRS,
    pathvars:
        job="measure_review/{corpus}/{towers}",
    params:
        **dag.step(
            "measure_review",
            stamps=dag.stamps(dag.user_file("reviewed")),
            cut=dag.config.select_pairs.cut,
        ),


# With pairs labelled right the ranks of similar captions say how many were swapped. It is in no
# interval of the labels, and the audit itself reads no label.
use rule step as rate_similar with:
    input:
        corpus=pairs.CORPUS,
        captions=dag.every(pairs.CAPTIONS),
        features=towers.FEATURES_LIST,
        feature_rows=towers.ROWS_LIST,
        projection=towers.UNTOUCHED_PROJECTION,
        similar=pairs.SIMILAR,
        audit=audit.AUDIT,
        rates=audit.RATES,
        sample=review.SAMPLE,
        reviewed=steady(dag.user_file("reviewed")),
        truth=steady(of_review.truth(dag)),
    output:
        rate=audit.SIMILAR_RATE,
    pathvars:
        job="rate_similar/{corpus}/{towers}",
    params:
        **dag.step("rate_similar", stamps=dag.stamps(dag.user_file("reviewed"))),


# What a repair did to captions, by a person who compares old and new ones.
use rule step as draw_replaced with:
    input:
        pairing=alone(of_review.of_compared(dag, lambda of: of_job(of, pairs.PAIRING))),
        repaired=alone(of_review.of_compared(dag, lambda of: of_job(of, repair.REPAIRED))),
        captions=alone(of_review.of_compared(dag, dag.repair.texts)),
    output:
        sample=review.REPLACED_SAMPLE,
    pathvars:
        job="draw_replaced/{corpus}/{towers}",
    params:
        **dag.step("draw_replaced"),


use rule step as measure_replaced with:
    input:
        sample=review.REPLACED_SAMPLE,
        reviewed=steady(dag.user_file("reviewed_repairs")),
    output:
        replaced=review.REPLACED,
    pathvars:
        job="measure_replaced/{corpus}/{towers}",
    params:
        **dag.step("measure_replaced", stamps=dag.stamps(dag.user_file("reviewed_repairs"))),


use rule step as write_review with:
    input:
        sample=dag.every(review.SAMPLE),
        strata=dag.every(review.STRATA),
        replaced=of_review.replaced(dag),
        index=dag.every(pairs.INDEX),
        shards=steady(dag.pairs.shards()),
        templates=dated(
            of_report.files(*(f"review/report/page.{kind}" for kind in ("css", "html.j2", "js")))
        ),
    output:
        page=review.PAGE,
    pathvars:
        job="write_review",
    params:
        **dag.step(
            "write_review",
            sources=dag.pairs.sources(),
            **dag.pairs.streamed(dag.pairs.shards()),
        ),


# The sample, its page, and what its labels measure, without the report.
rule review:
    input:
        alone(lambda wildcards: [*of_review.files(dag), review.PAGE]),
