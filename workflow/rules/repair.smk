# The repair: new captions for the pictures of a corpus, rules that decide which captions are taken,
# and a fine-tuning on the result of each. The arms are measured by the rules of evaluation.smk.


wildcard_constraints:
    draw="[0-9]+",
    part="all|[0-9]+",
    repair="[a-z-]+",
    scorer="(?!second\\.)[^/~]+",


rule trust_pairs:
    input:
        pairing=dag.repair.original(),
        captions=dag.every(pairs.CAPTIONS),
        trusted_keys=steady(dag.user_file("trusted")),
        reviewed=steady(dag.user_file("reviewed")),
        excluded=pairs.EXCLUDED,
        rejected=pairs.REJECTED_LIST,
    output:
        trusted=repair.TRUSTED,
    log:
        "logs/trust_pairs/{corpus}.log",
    benchmark:
        "benchmarks/trust_pairs/{corpus}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("trust_pairs"),
        stamps=dag.stamps(dag.user_file("trusted"), dag.user_file("reviewed")),
        draw=0,
        flags=literal(dag.flags("trust_pairs")),
    message:
        "Choose the pairs of {wildcards.corpus} whose captions count as right"
    shell:
        "python -m mispair trust-pairs --pairing {input.pairing:q} --draw {params.draw}"
        " --captions {input.captions:q} --trusted-keys {input.trusted_keys:q} --reviewed {input.reviewed:q}"
        " --left-out {input.excluded:q} @{input.rejected:q} --trusted {output.trusted:q} {params.flags} > {log:q} 2>&1"


rule recaption_pairs:
    input:
        corpus=pairs.CORPUS,
        features=dag.repair.of_trained(towers.FEATURES_LIST),
        rows=dag.repair.of_trained(towers.ROWS_LIST),
        trusted=dag.repair.of_trained(repair.TRUSTED),
        towers=steady(dag.tower_files),
        index=dag.repair.index_of_part,
        shards=steady(dag.repair.shards_of_part),
        model=steady(dag.repair.captioner_files()),
    output:
        recaptions=repair.RECAPTIONS_OF_PART,
        # The speed differs from run to run, so it is no result.
        record=repair.RECAPTION_RECORD,
    log:
        "logs/recaption_pairs/{corpus}/{towers}/{part}.log",
    benchmark:
        "benchmarks/recaption_pairs/{corpus}/{towers}/{part}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("recaption_pairs"),
    params:
        *code_version("recaption_pairs"),
        stamps=dag.stamps(dag.tower_files, dag.repair.shards_of_part, dag.repair.captioner_files()),
        sources=dag.repair.sources_of_part,
        features=lambda wildcards, input: " ".join(f"@{path}" for path in input.features),
        rows=lambda wildcards, input: " ".join(f"@{path}" for path in input.rows),
        flags=literal(dag.flags("recaption_pairs")),
    message:
        "Write new captions for the pictures of {wildcards.corpus}: {wildcards.part}"
    shell:
        "python -m mispair recaption-pairs --corpus {input.corpus:q}"
        " --features {params.features} --feature-rows {params.rows} --trusted {input.trusted:q}"
        " --towers {input.towers:q} --index {input.index:q} --shards {input.shards:q}"
        " --sources {params.sources:q} --recaptions {output.recaptions:q} --record {output.record:q}"
        " {params.flags} > {log:q} 2>&1"


rule gather_recaptions:
    input:
        parts=dag.repair.recaption_parts(),
    output:
        recaptions=repair.RECAPTIONS,
        texts=repair.RECAPTION_TEXTS,
    log:
        "logs/gather_recaptions/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/gather_recaptions/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("gather_recaptions"),
    message:
        "Gather the new captions of {wildcards.corpus}"
    shell:
        "python -m mispair gather-recaptions --parts {input.parts:q}"
        " --recaptions {output.recaptions:q} --texts {output.texts:q} > {log:q} 2>&1"


rule score_captions:
    input:
        pairing=repair.RAW,
        recaptions=repair.RECAPTIONS,
        features=dag.repair.scorer(towers.FEATURES_LIST),
        rows=dag.repair.scorer(towers.ROWS_LIST),
        written_features=dag.repair.written_for_scorer(towers.WRITTEN_FEATURES),
        written_rows=dag.repair.written_for_scorer(towers.WRITTEN_ROWS),
        new_features=dag.repair.scorer(repair.NEW_FEATURES),
        new_rows=dag.repair.scorer(repair.NEW_ROWS),
        projection=dag.repair.scorer(towers.PROJECTION),
        trusted=repair.TRUSTED,
    output:
        scores=repair.SCORES,
    log:
        "logs/score_captions/{corpus}/{towers}/{scheme}~{rate}~{scorer}.log",
    benchmark:
        "benchmarks/score_captions/{corpus}/{towers}/{scheme}~{rate}~{scorer}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("score_captions"),
        features=lambda wildcards, input: f"@{input.features}",
        rows=lambda wildcards, input: f"@{input.rows}",
    message:
        "Score old and new captions by the {wildcards.scorer} model: {wildcards.scheme}, rate {wildcards.rate}"
    shell:
        "python -m mispair score-captions --pairing {input.pairing:q} --recaptions {input.recaptions:q}"
        " --features {params.features} {input.written_features:q} {input.new_features:q}"
        " --feature-rows {params.rows} {input.written_rows:q} {input.new_rows:q}"
        " --projection {input.projection:q} --trusted {input.trusted:q} --scores {output.scores:q}"
        " > {log:q} 2>&1"


# The second round: in each draw, the captioner learns from the captions after the first round, and
# the model that was fine-tuned on these is the scorer.
use rule trust_pairs as trust_repaired with:
    input:
        pairing=repair.FIRST_ROUND,
        captions=[
            *dag.every(pairs.CAPTIONS),
            pairs.WRITTEN,
            repair.RECAPTION_TEXTS,
        ],
        trusted_keys=[],
        reviewed=[],
        excluded=pairs.EXCLUDED,
        rejected=pairs.REJECTED_LIST,
    output:
        trusted=repair.TRUSTED_AGAIN,
    log:
        "logs/trust_repaired/{corpus}/{towers}/{scheme}~{rate}/{draw}.log",
    benchmark:
        "benchmarks/trust_repaired/{corpus}/{towers}/{scheme}~{rate}/{draw}.tsv"
    params:
        draw=lambda wildcards: wildcards.draw,
        flags="--share 1",


use rule recaption_pairs as recaption_again with:
    input:
        corpus=pairs.CORPUS,
        features=[towers.FEATURES_LIST],
        rows=[towers.ROWS_LIST],
        trusted=repair.TRUSTED_AGAIN,
        towers=steady(dag.tower_files),
        index=[],
        shards=[],
        model=[],
    output:
        recaptions=repair.RECAPTIONS_OF_ALL,
        record=repair.RECAPTION_AGAIN_RECORD,
    log:
        "logs/recaption_again/{corpus}/{towers}/{scheme}~{rate}/{draw}.log",
    benchmark:
        "benchmarks/recaption_again/{corpus}/{towers}/{scheme}~{rate}/{draw}.tsv"
    params:
        stamps=dag.stamps(dag.tower_files),
        sources=[],
    message:
        "Write captions for the second round: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


use rule gather_recaptions as gather_again with:
    input:
        parts=repair.RECAPTIONS_OF_ALL,
    output:
        recaptions=repair.RECAPTIONS_AGAIN,
        texts=repair.TEXTS_AGAIN,
    log:
        "logs/gather_again/{corpus}/{towers}/{scheme}~{rate}/{draw}.log",
    benchmark:
        "benchmarks/gather_again/{corpus}/{towers}/{scheme}~{rate}/{draw}.tsv"


use rule score_captions as score_again with:
    input:
        pairing=repair.FIRST_ROUND,
        recaptions=dag.repair.again(repair.RECAPTIONS_AGAIN),
        features=towers.FEATURES_LIST,
        rows=towers.ROWS_LIST,
        written_features=dag.written(towers.WRITTEN_FEATURES),
        written_rows=dag.written(towers.WRITTEN_ROWS),
        new_features=[repair.NEW_FEATURES, *dag.repair.again(repair.FEATURES_AGAIN)],
        new_rows=[repair.NEW_ROWS, *dag.repair.again(repair.ROWS_AGAIN)],
        projection=towers.TUNED_PROJECTION.replace("{start}", "repair-factor"),
        trusted=repair.TRUSTED,
    output:
        scores=repair.SCORES_AGAIN,
    log:
        "logs/score_again/{corpus}/{towers}/{scheme}~{rate}.log",
    benchmark:
        "benchmarks/score_again/{corpus}/{towers}/{scheme}~{rate}.tsv"
    message:
        "Score captions by the model after the first round: {wildcards.scheme}, rate {wildcards.rate}"


# The audit of all pairs of each draw, for the rule that decides by it.
use rule weigh_pairs as judge_pairs with:
    input:
        **READ_WITH_A_PAIRING,
        pairing=repair.RAW,
    output:
        weights=repair.WEIGHTS,
    log:
        "logs/judge_pairs/{corpus}/{towers}/{scheme}~{rate}.log",
    benchmark:
        "benchmarks/judge_pairs/{corpus}/{towers}/{scheme}~{rate}.tsv"
    params:
        flags=dag.repair.judging(),


rule filter_captions:
    input:
        pairing=pairs.PAIRING,
        original=dag.repair.original(),
        trusted=repair.TRUSTED,
        recaptions=dag.repair.new_captions,
        scores=dag.repair.scores,
        first=dag.repair.first_round,
        audits=dag.repair.audits,
        captions=dag.repair.texts,
        truth=steady(dag.truth_of_all()),
    output:
        repaired=repair.REPAIRED,
        ledger=repair.LEDGER,
    log:
        "logs/filter_captions/{corpus}/{towers}/{scheme}~{rate}/{repair}.log",
    benchmark:
        "benchmarks/filter_captions/{corpus}/{towers}/{scheme}~{rate}/{repair}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("filter_captions"),
        stamps=dag.stamps(dag.truth_of_all()),
        flags=dag.repair.deciding,
    message:
        "Filter captions by the rule {wildcards.repair}: {wildcards.scheme}, rate {wildcards.rate}"
    shell:
        "python -m mispair filter-captions --rule {wildcards.repair:q} --rate {wildcards.rate:q}"
        " --pairing {input.pairing:q} --original {input.original:q} --trusted {input.trusted:q} --recaptions {input.recaptions:q}"
        " --scores {input.scores:q} --first {input.first:q} --audits {input.audits:q} --captions {input.captions:q}"
        " --truth {input.truth:q} --repaired {output.repaired:q} --ledger {output.ledger:q}"
        " {params.flags} > {log:q} 2>&1"


rule compare_repairs:
    input:
        answers=dag.repair.answers(),
    output:
        comparison=repair.COMPARISON,
    log:
        "logs/compare_repairs/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/compare_repairs/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("compare_repairs"),
    message:
        "Compare the arms of the repair, image by image"
    shell:
        "python -m mispair compare-repairs --answers {input.answers:q}"
        " --comparison {output.comparison:q} > {log:q} 2>&1"


rule draw_examples:
    input:
        ledgers=lambda wildcards: dag.repair.ledgers(),
        index=dag.every(pairs.INDEX),
        shards=steady(dag.shards_of_first(len(dag.groups))),
        template=dated(dag.report_files("report/templates/examples.html.j2")),
    output:
        examples=repair.EXAMPLES,
    log:
        "logs/draw_examples.log",
    benchmark:
        "benchmarks/draw_examples.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_examples"),
        sources=dag.sources_of_shards(dag.shards_of_first(len(dag.groups))),
    message:
        "Lay out old and new captions"
    shell:
        "python -m mispair draw-examples --ledgers {input.ledgers:q} --index {input.index:q}"
        " --shards {input.shards:q} --sources {params.sources:q}"
        " --examples {output.examples:q} > {log:q} 2>&1"


rule export_repaired:
    input:
        repaired=repair.REPAIRED,
        ledger=repair.LEDGER,
        captions=dag.repair.texts,
        index=pairs.INDEX_LIST,
    output:
        export=directory(repair.EXPORT),
    log:
        "logs/export_repaired/{corpus}/{towers}/{scheme}~{rate}/{repair}.log",
    benchmark:
        "benchmarks/export_repaired/{corpus}/{towers}/{scheme}~{rate}/{repair}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("export_repaired"),
        flags=literal(dag.flags("export_repaired")),
    message:
        "Write the captions that the rule {wildcards.repair} leaves"
    shell:
        "python -m mispair export-repaired --repaired {input.repaired:q} --ledger {input.ledger:q}"
        " --captions {input.captions:q} --index @{input.index:q} --export {output.export:q}"
        " {params.flags} > {log:q} 2>&1"


# All results of the study, without the report.
rule repair:
    input:
        alone(lambda wildcards: dag.repair.files()),
        dag.repair.exports(),
