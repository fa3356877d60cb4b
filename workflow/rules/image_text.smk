# The image-text study: its target makes its results alone.


# All results of the study, without the report.
rule image_text:
    input:
        alone(lambda wildcards: dag.refuse_unlisted("image_text")),
        dag.results("image_text"),
