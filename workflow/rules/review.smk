# Checked by eye: a random sample of pairs for a person, and what the labels measure. No label is an
# input of the draw or of the audit, whose probabilities are its strata.
from mispair.review.dag import (
    audited,
    files as review_files,
    kept,
    of_compared,
    pages as pages_of_review,
    replaced,
    truth,
)


rule draw_review:
    input:
        corpus=pairs.CORPUS,
        captions=dag.every(pairs.CAPTIONS),
        audit=audited(dag, audit.AUDIT),
        kept=steady(kept(dag)),
    output:
        sample=review.SAMPLE,
        strata=review.STRATA,
    log:
        "logs/draw_review/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/draw_review/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_review"),
        stamps=dag.stamps(kept(dag)),
        flags=literal(dag.flags("draw_review")),
    message:
        "Draw pairs of {wildcards.corpus} that a person checks"
    shell:
        "python -m mispair draw-review --corpus {input.corpus:q} --captions {input.captions:q}"
        " --audit {input.audit:q} --kept {input.kept:q} --sample {output.sample:q}"
        " --strata {output.strata:q} {params.flags} > {log:q} 2>&1"


rule measure_review:
    input:
        sample=review.SAMPLE,
        reviewed=steady(dag.user_file("reviewed")),
        truth=steady(truth(dag)),
        audit=audited(dag, audit.AUDIT),
    output:
        review=review.REVIEW,
        pairs=review.PAIRS,
    log:
        "logs/measure_review/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/measure_review/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("measure_review"),
        stamps=dag.stamps(dag.user_file("reviewed")),
        cut=dag.config.select_pairs.cut,
        flags=literal(dag.flags("measure_review")),
    message:
        "Measure the share of wrong captions of {wildcards.corpus} by labels"
    shell:
        "python -m mispair measure-review --sample {input.sample:q} --reviewed {input.reviewed:q}"
        " --truth {input.truth:q} --audit {input.audit:q} --cut {params.cut}"
        " --review {output.review:q} --pairs {output.pairs:q} {params.flags} > {log:q} 2>&1"


# What a repair did to captions, by a person who compares old and new ones.
rule draw_replaced:
    input:
        pairing=alone(of_compared(dag, lambda of: of_job(of, pairs.PAIRING))),
        repaired=alone(of_compared(dag, lambda of: of_job(of, repair.REPAIRED))),
        captions=alone(of_compared(dag, dag.repair.texts)),
    output:
        sample=review.REPLACED_SAMPLE,
    log:
        "logs/draw_replaced/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/draw_replaced/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_replaced"),
        flags=literal(dag.flags("draw_replaced")),
    message:
        "Draw replaced captions of {wildcards.corpus} that a person compares"
    shell:
        "python -m mispair draw-replaced --pairing {input.pairing:q} --repaired {input.repaired:q}"
        " --captions {input.captions:q} --sample {output.sample:q} {params.flags} > {log:q} 2>&1"


rule measure_replaced:
    input:
        sample=review.REPLACED_SAMPLE,
        reviewed=steady(dag.user_file("reviewed_repairs")),
    output:
        replaced=review.REPLACED,
    log:
        "logs/measure_replaced/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/measure_replaced/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("measure_replaced"),
        stamps=dag.stamps(dag.user_file("reviewed_repairs")),
    message:
        "Measure what the repair of {wildcards.corpus} improved and harmed, by labels"
    shell:
        "python -m mispair measure-replaced --sample {input.sample:q} --reviewed {input.reviewed:q}"
        " --replaced {output.replaced:q} > {log:q} 2>&1"


rule write_review:
    input:
        sample=dag.every(review.SAMPLE),
        strata=dag.every(review.STRATA),
        replaced=replaced(dag),
        index=dag.every(pairs.INDEX),
        shards=steady(dag.shards_of_first(len(dag.groups))),
        templates=dated(
            dag.report_files(*(f"review/report/page.{kind}" for kind in ("css", "html.j2", "js")))
        ),
    output:
        page=review.PAGE,
    log:
        "logs/write_review.log",
    benchmark:
        "benchmarks/write_review.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("write_review"),
        sources=dag.sources_of_shards(dag.shards_of_first(len(dag.groups))),
    message:
        "Write the page on which a person checks pairs: reports/review.html"
    shell:
        "python -m mispair write-review --sample {input.sample:q} --strata {input.strata:q}"
        " --replaced {input.replaced:q} --index {input.index:q} --shards {input.shards:q} --sources {params.sources:q}"
        " --page {output.page:q} > {log:q} 2>&1"


# The sample, its page, and what its labels measure, without the report.
rule review:
    input:
        alone(lambda wildcards: [*review_files(dag), review.PAGE]),
