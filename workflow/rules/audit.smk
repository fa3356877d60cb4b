# The audit: how many captions are wrong, and which; tried with known shares on the same corpus.
from mispair.audit.dag import corpus as audited_corpus, files as audit_files, similar, weighing


rule audit_pairs:
    input:
        corpus=alone(audited_corpus(dag)),
        captions=dag.every(pairs.CAPTIONS),
        features=towers.FEATURES_LIST,
        rows=towers.ROWS_LIST,
        projection=towers.UNTOUCHED_PROJECTION,
        similar=similar(dag),
        trusted=steady(dag.user_file("trusted")),
        excluded=pairs.EXCLUDED,
        rejected=pairs.REJECTED_LIST,
        training=steady(dag.training_record()),
        shards=steady(dag.shards_to_compare()),
    output:
        audit=audit.AUDIT,
        rates=audit.RATES,
    log:
        "logs/audit_pairs/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/audit_pairs/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("audit_pairs"),
    params:
        *code_version("audit_pairs"),
        stamps=dag.stamps(dag.user_file("trusted")),
        flags=literal(dag.flags("audit_pairs")),
    message:
        "Count wrong captions of {wildcards.corpus}"
    shell:
        "python -m mispair audit-pairs --corpus {input.corpus:q} --captions {input.captions:q}"
        " --features @{input.features:q} --feature-rows @{input.rows:q}"
        " --projection {input.projection:q} --similar {input.similar:q} --trusted {input.trusted:q}"
        " --left-out {input.excluded:q} @{input.rejected:q}"
        " --training {input.training:q} --shards {input.shards:q}"
        " --audit {output.audit:q} --rates {output.rates:q} {params.flags} > {log:q} 2>&1"


rule calibrate_audit:
    input:
        corpus=pairs.CORPUS,
        captions=dag.every(pairs.CAPTIONS),
        features=towers.FEATURES_LIST,
        rows=towers.ROWS_LIST,
        projection=towers.UNTOUCHED_PROJECTION,
        similar=pairs.SIMILAR,
        truth=steady(dag.truth_of_all()),
        training=steady(dag.training_record()),
        shards=steady(dag.shards_to_compare()),
    output:
        calibration=audit.CALIBRATION,
    log:
        "logs/calibrate_audit/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/calibrate_audit/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("calibrate_audit"),
    params:
        *code_version("calibrate_audit"),
        flags=literal(dag.flags("calibrate_audit")),
    message:
        "Try the audit of {wildcards.corpus} with known shares of wrong captions"
    shell:
        "python -m mispair calibrate-audit --corpus {input.corpus:q} --captions {input.captions:q}"
        " --features @{input.features:q} --feature-rows @{input.rows:q}"
        " --projection {input.projection:q} --similar {input.similar:q} --truth {input.truth:q}"
        " --training {input.training:q} --shards {input.shards:q}"
        " --calibration {output.calibration:q} {params.flags} > {log:q} 2>&1"


rule select_pairs:
    input:
        audit=audit.AUDIT,
        rates=audit.RATES,
        captions=dag.every(pairs.CAPTIONS),
        index=pairs.INDEX_LIST,
        groups=steady(dag.user_file("groups")),
    output:
        lists=directory(audit.LISTS),
        selection=audit.SELECTION,
    log:
        "logs/select_pairs/{corpus}/{towers}.log",
    benchmark:
        "benchmarks/select_pairs/{corpus}/{towers}.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("select_pairs"),
        stamps=dag.stamps(dag.user_file("groups")),
        flags=literal(dag.flags("select_pairs")),
    message:
        "Write lists of the pairs of {wildcards.corpus} that are kept"
    shell:
        "python -m mispair select-pairs --audit {input.audit:q} --rates {input.rates:q}"
        " --captions {input.captions:q} --index @{input.index:q} --groups {input.groups:q}"
        " --lists {output.lists:q} --selection {output.selection:q}"
        " {params.flags} > {log:q} 2>&1"


rule draw_suspects:
    input:
        audit=dag.every(audit.AUDIT),
        captions=dag.every(pairs.CAPTIONS),
        index=dag.every(pairs.INDEX),
        shards=steady(dag.shards_of_first(len(dag.groups))),
        template=dated(dag.report_files("report/templates/suspects.html.j2")),
    output:
        suspects=audit.SUSPECTS,
    log:
        "logs/draw_suspects.log",
    benchmark:
        "benchmarks/draw_suspects.tsv"
    conda:
        "../../envs/environment.yaml"
    params:
        *code_version("draw_suspects"),
        sources=dag.sources_of_shards(dag.shards_of_first(len(dag.groups))),
        flags=literal(dag.flags("draw_suspects")),
    message:
        "Lay out pairs whose captions are likely wrong"
    shell:
        "python -m mispair draw-suspects --audit {input.audit:q} --captions {input.captions:q}"
        " --index {input.index:q} --shards {input.shards:q} --sources {params.sources:q}"
        " --suspects {output.suspects:q} {params.flags} > {log:q} 2>&1"


# What judges a pairing reads besides it.
READ_WITH_A_PAIRING = dict(
    features=towers.FEATURES_LIST,
    rows=towers.ROWS_LIST,
    written_features=dag.written(towers.WRITTEN_FEATURES),
    written_rows=dag.written(towers.WRITTEN_ROWS),
    untouched=towers.UNTOUCHED_PROJECTION,
    trusted=steady(dag.user_file("trusted")),
    excluded=pairs.EXCLUDED,
    rejected=pairs.REJECTED_LIST,
    training=steady(dag.training_record()),
    shards=steady(dag.shards_to_compare()),
)


rule weigh_pairs:
    input:
        **READ_WITH_A_PAIRING,
        pairing=pairs.PAIRING,
    output:
        weights=audit.WEIGHTS,
    log:
        "logs/weigh_pairs/{corpus}/{towers}/{scheme}~{rate}.log",
    benchmark:
        "benchmarks/weigh_pairs/{corpus}/{towers}/{scheme}~{rate}.tsv"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=dag.gpus("finetune_projection"),
    params:
        *code_version("weigh_pairs"),
        stamps=dag.stamps(dag.user_file("trusted")),
        flags=weighing(dag),
    message:
        "Weigh pairs with {wildcards.scheme} captions, rate {wildcards.rate}"
    shell:
        "python -m mispair weigh-pairs --pairing {input.pairing:q}"
        " --features @{input.features:q} {input.written_features:q}"
        " --feature-rows @{input.rows:q} {input.written_rows:q}"
        " --untouched {input.untouched:q} --trusted {input.trusted:q}"
        " --left-out {input.excluded:q} @{input.rejected:q}"
        " --training {input.training:q} --shards {input.shards:q} --weights {output.weights:q}"
        " {params.flags} > {log:q} 2>&1"


# All results of the study, without the report.
rule audit:
    input:
        alone(lambda wildcards: audit_files(dag)),
