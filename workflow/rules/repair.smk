# The repair: new captions for the pictures of a corpus, rules that decide which captions are taken,
# and a fine-tuning on the result of each. The arms are measured by the rules of evaluation.smk.
from mispair.repair import dag as repair


wildcard_constraints:
    draw="[0-9]+",
    part="all|[0-9]+",
    repair="[a-z-]+",
    scorer="(?!second\\.)[^/~]+",


rule trust_pairs:
    input:
        pairing=dag.repair.original(),
        captions=dag.repair.corpus_texts(),
        trusted_keys=steady(dag.user_file("trusted")),
        reviewed=steady(dag.user_file("reviewed")),
        excluded="results/pairs/{corpus}/excluded.parquet",
        rejected="results/pairs/{corpus}/index/rejected.parquet.sha256",
    output:
        trusted="results/repair/{corpus}/trusted.parquet",
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
        corpus="results/pairs/{corpus}/corpus.parquet",
        features=dag.repair.of_trained(repair.FEATURES.format(kind="safetensors")),
        rows=dag.repair.of_trained(repair.FEATURES.format(kind="parquet")),
        trusted=dag.repair.of_trained("results/repair/{corpus}/trusted.parquet"),
        towers=steady(dag.tower_files),
        index=dag.repair.index_of_part,
        shards=steady(dag.repair.shards_of_part),
        model=steady(dag.repair.captioner_files()),
    output:
        recaptions=f"{repair.FOLDER}/recaptions/{{part}}.parquet",
        # The speed differs from run to run, so it is no result.
        record="logs/recaption_pairs/{corpus}/{towers}/{part}.json",
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
        recaptions=f"{repair.FOLDER}/recaptions.parquet",
        texts=f"{repair.FOLDER}/recaption_texts.parquet",
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
        pairing=f"{repair.OF_RATE}/raw.parquet",
        recaptions=f"{repair.FOLDER}/recaptions.parquet",
        features=dag.repair.scorer(repair.FEATURES.format(kind="safetensors")),
        rows=dag.repair.scorer(repair.FEATURES.format(kind="parquet")),
        written_features=dag.repair.written_for_scorer("safetensors"),
        written_rows=dag.repair.written_for_scorer("parquet"),
        new_features=dag.repair.scorer("results/features/{corpus}/{towers}/recaptions.safetensors"),
        new_rows=dag.repair.scorer("results/features/{corpus}/{towers}/recaptions.parquet"),
        projection=dag.repair.scorer("results/arms/{corpus}/{towers}/{arm}/projection.safetensors"),
        trusted="results/repair/{corpus}/trusted.parquet",
    output:
        scores=f"{repair.OF_RATE}/scores~{{scorer}}.safetensors",
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
        pairing=f"{repair.OF_RATE}/factor.parquet",
        captions=[
            *dag.repair.corpus_texts(),
            "results/pairs/{corpus}/pairing/{scheme}~{rate}.captions.parquet",
            f"{repair.FOLDER}/recaption_texts.parquet",
        ],
        trusted_keys=[],
        reviewed=[],
        excluded="results/pairs/{corpus}/excluded.parquet",
        rejected="results/pairs/{corpus}/index/rejected.parquet.sha256",
    output:
        trusted=f"{repair.SECOND}/{{draw}}.trusted.parquet",
    log:
        "logs/trust_repaired/{corpus}/{towers}/{scheme}~{rate}/{draw}.log",
    benchmark:
        "benchmarks/trust_repaired/{corpus}/{towers}/{scheme}~{rate}/{draw}.tsv"
    params:
        *code_version("trust_pairs"),
        draw=lambda wildcards: wildcards.draw,
        flags="--share 1",


use rule recaption_pairs as recaption_again with:
    input:
        corpus="results/pairs/{corpus}/corpus.parquet",
        features=[repair.FEATURES.format(kind="safetensors")],
        rows=[repair.FEATURES.format(kind="parquet")],
        trusted=f"{repair.SECOND}/{{draw}}.trusted.parquet",
        towers=steady(dag.tower_files),
        index=[],
        shards=[],
        model=[],
    output:
        recaptions=f"{repair.SECOND}/{{draw}}.all.parquet",
        record="logs/recaption_again/{corpus}/{towers}/{scheme}~{rate}/{draw}.json",
    log:
        "logs/recaption_again/{corpus}/{towers}/{scheme}~{rate}/{draw}.log",
    benchmark:
        "benchmarks/recaption_again/{corpus}/{towers}/{scheme}~{rate}/{draw}.tsv"
    params:
        *code_version("recaption_pairs"),
        stamps=dag.stamps(dag.tower_files),
        sources=[],
        features=lambda wildcards, input: " ".join(f"@{path}" for path in input.features),
        rows=lambda wildcards, input: " ".join(f"@{path}" for path in input.rows),
        flags=literal(dag.flags("recaption_pairs")),
    message:
        "Write captions for the second round: {wildcards.scheme}, rate {wildcards.rate}, draw {wildcards.draw}"


use rule gather_recaptions as gather_again with:
    input:
        parts=f"{repair.SECOND}/{{draw}}.all.parquet",
    output:
        recaptions=f"{repair.SECOND}/{{draw}}.parquet",
        texts=f"{repair.SECOND}/{{draw}}.texts.parquet",
    log:
        "logs/gather_again/{corpus}/{towers}/{scheme}~{rate}/{draw}.log",
    benchmark:
        "benchmarks/gather_again/{corpus}/{towers}/{scheme}~{rate}/{draw}.tsv"


use rule score_captions as score_again with:
    input:
        pairing=f"{repair.OF_RATE}/factor.parquet",
        recaptions=dag.repair.captions_again(),
        features="results/features/{corpus}/{towers}/safetensors.sha256",
        rows="results/features/{corpus}/{towers}/parquet.sha256",
        written_features=dag.written("safetensors"),
        written_rows=dag.written("parquet"),
        new_features=dag.repair.features_again("safetensors"),
        new_rows=dag.repair.features_again("parquet"),
        projection="results/arms/{corpus}/{towers}/repair-factor_{scheme}~{rate}/projection.safetensors",
        trusted="results/repair/{corpus}/trusted.parquet",
    output:
        scores=f"{repair.OF_RATE}/scores~second.safetensors",
    log:
        "logs/score_again/{corpus}/{towers}/{scheme}~{rate}.log",
    benchmark:
        "benchmarks/score_again/{corpus}/{towers}/{scheme}~{rate}.tsv"
    message:
        "Score captions by the model after the first round: {wildcards.scheme}, rate {wildcards.rate}"


# The audit of all pairs of each draw, for the rule that decides by it.
use rule weigh_pairs as judge_pairs with:
    input:
        pairing=f"{repair.OF_RATE}/raw.parquet",
        features="results/features/{corpus}/{towers}/safetensors.sha256",
        rows="results/features/{corpus}/{towers}/parquet.sha256",
        written_features=dag.written("safetensors"),
        written_rows=dag.written("parquet"),
        untouched="results/arms/{corpus}/{towers}/untouched/projection.safetensors",
        trusted=steady(dag.user_file("trusted")),
        excluded="results/pairs/{corpus}/excluded.parquet",
        rejected="results/pairs/{corpus}/index/rejected.parquet.sha256",
        training=steady(dag.training_record()),
        shards=steady(dag.shards_to_compare()),
    output:
        weights=f"{repair.OF_RATE}/weights.safetensors",
    log:
        "logs/judge_pairs/{corpus}/{towers}/{scheme}~{rate}.log",
    benchmark:
        "benchmarks/judge_pairs/{corpus}/{towers}/{scheme}~{rate}.tsv"
    params:
        *code_version("weigh_pairs"),
        stamps=dag.stamps(dag.user_file("trusted")),
        flags=dag.repair.judging(),


rule filter_captions:
    input:
        pairing="results/pairs/{corpus}/pairing/{scheme}~{rate}.parquet",
        original=dag.repair.original(),
        trusted="results/repair/{corpus}/trusted.parquet",
        recaptions=dag.repair.new_captions,
        scores=dag.repair.scores,
        first=dag.repair.first_round,
        audits=dag.repair.audits,
        captions=dag.repair.texts,
        truth=steady(dag.truth_of_all()),
    output:
        repaired=f"{repair.OF_RATE}/{{repair}}.parquet",
        ledger=f"{repair.OF_RATE}/{{repair}}.json",
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
        comparison=f"{repair.FOLDER}/comparison.json",
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


rule export_repaired:
    input:
        repaired=f"{repair.OF_RATE}/{{repair}}.parquet",
        ledger=f"{repair.OF_RATE}/{{repair}}.json",
        captions=dag.repair.texts,
        index="results/pairs/{corpus}/index/parquet.sha256",
    output:
        export=directory(f"{repair.OF_RATE}/{{repair}}"),
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
