// C++ as CodeMirror's grammar reads it, and CUDA's and CuTe's own words on top, outside comments and strings.

import { cpp } from "@codemirror/lang-cpp";
import { HighlightStyle, syntaxHighlighting, syntaxTree } from "@codemirror/language";
import { Decoration, MatchDecorator, ViewPlugin } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const QUALIFIERS =
  "__global__|__device__|__host__|__shared__|__constant__|__managed__|__restrict__|__noinline__|__forceinline__|" +
  "__launch_bounds__|__cluster_dims__|__grid_constant__|__maxnreg__|__align__|CUTE_(?:HOST_DEVICE|DEVICE|UNROLL|STATIC_ASSERT\\w*)";
const NAMES =
  "threadIdx|blockIdx|blockDim|gridDim|warpSize|__sync\\w+|__shfl\\w*|__(?:all|any|ballot|activemask|match|reduce|vote)\\w*|" +
  "__threadfence\\w*|__nanosleep|__ld(?:g|cg|ca|cs|lu|cv)|__st(?:wb|cg|cs|wt)|__half2?|__nv_\\w+|(?:float|double|u?int|u?short|u?char|u?long)[1234]|dim3|" +
  "half_t|bfloat16_t|tfloat32_t|float_e4m3_t|float_e5m2_t|CUtensorMap|atomic[A-Z]\\w*";

const QUALIFIER = Decoration.mark({ class: "cg-cuda-word" });
const NAME = Decoration.mark({ class: "cg-cuda-name" });
const TEXT = new Set(["LineComment", "BlockComment", "String", "RawString", "CharLiteral", "PreprocDirectiveContent"]);

const decorator = new MatchDecorator({
  regexp: new RegExp(`\\b(?:(${QUALIFIERS})|(?:${NAMES}))\\b`, "g"),
  decorate(add, from, to, match, view) {
    if (!TEXT.has(syntaxTree(view.state).resolveInner(from, 1).name)) add(from, to, match[1] ? QUALIFIER : NAME);
  },
});

const words = ViewPlugin.fromClass(
  class {
    constructor(view) {
      this.decorations = decorator.createDeco(view);
    }

    update(update) {
      // What is a comment is known only when the parser has come by.
      const parsed = syntaxTree(update.startState) !== syntaxTree(update.state);
      this.decorations = parsed ? decorator.createDeco(update.view) : decorator.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.controlKeyword, tags.operatorKeyword, tags.self], color: "var(--cg-tok-word)" },
  { tag: [tags.bool, tags.null, tags.atom], color: "var(--cg-tok-word)" },
  { tag: [tags.typeName, tags.standard(tags.typeName), tags.className, tags.namespace], color: "var(--cg-tok-type)" },
  { tag: [tags.comment], color: "var(--cg-grey)", fontStyle: "italic" },
  { tag: [tags.processingInstruction, tags.meta], color: "var(--cg-tok-directive)" },
  { tag: [tags.string, tags.character, tags.escape], color: "var(--cg-tok-string)" },
  { tag: [tags.number], color: "var(--cg-tok-number)" },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName)), tags.labelName],
    color: "var(--cg-tok-function)",
  },
  { tag: [tags.operator, tags.punctuation, tags.bracket, tags.derefOperator], color: "var(--cg-tok-sign)" },
]);

export const cuda = [cpp(), words, syntaxHighlighting(colours)];
