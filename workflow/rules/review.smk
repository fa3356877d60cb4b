# Checked by eye: a random sample of pairs for a person, and what the labels measure. No label is an
# input of the draw or of the audit, whose probabilities are its strata.
from mispair.audit.dag import AUDIT, texts
from mispair.review import dag as review


rule draw_review:
    input:
        corpus="results/pairs/{corpus}/corpus.parquet",
        captions=texts(dag),
        audit=review.audited(dag, f"{AUDIT}/audit.parquet"),
        kept=steady(review.kept(dag)),
    output:
        sample=f"{review.REVIEW}/sample.parquet",
        strata=f"{review.REVIEW}/strata.json",
    log:
        "logs/draw_review/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/draw_review/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_review"),
        stamps=dag.stamps(review.kept(dag)),
        flags=literal(dag.flags("draw_review")),
    message:
        "Draw pairs of {wildcards.corpus} that a person checks"
    shell:
        "python -m mispair draw-review --corpus {input.corpus:q} --captions {input.captions:q}"
        " --audit {input.audit:q} --kept {input.kept:q} --sample {output.sample:q}"
        " --strata {output.strata:q} {params.flags} > {log:q} 2>&1"


rule measure_review:
    input:
        sample=f"{review.REVIEW}/sample.parquet",
        reviewed=steady(dag.user_file("reviewed")),
        truth=steady(review.truth(dag)),
        audit=review.audited(dag, f"{AUDIT}/audit.parquet"),
    output:
        review=f"{review.REVIEW}/review.json",
        pairs=f"{review.REVIEW}/pairs.parquet",
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


# The sample, and what its labels measure, without the report.
rule review:
    input:
        alone(lambda wildcards: review.files(dag)),
