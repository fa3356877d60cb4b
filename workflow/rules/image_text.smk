# The image-text study: its target makes its results alone.


rule image_text:
    input:
        alone(lambda wildcards: dag.refuse_unlisted("image_text")),
        dag.results("image_text"),
