# CLIP against LaCLIP: the models of `models`, measured as they are.


# All results of the study, without the report.
rule laclip:
    input:
        alone(lambda wildcards: dag.refuse_unlisted("laclip")),
        dag.results("laclip"),
