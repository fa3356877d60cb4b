# CLIP against LaCLIP: the models of `models`, measured as they are.


rule laclip:
    input:
        alone(lambda wildcards: dag.refuse_unlisted("laclip")),
        dag.results("laclip"),
