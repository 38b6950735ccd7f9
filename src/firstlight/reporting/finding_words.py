"""Plain words for every finding: what it is, what it means, and what it does to training.

Enters: the id of a finding. Leaves: its ``Words``. Whoever reads them need not know the papers. Bias is a regime
and no fault, so nothing here blames: a sentence says what is, and what follows from it.

A check that is not listed here speaks for itself: its finding's own title and reason are shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from firstlight.results.finding import Finding

__all__ = ["WORDS", "Words", "words_for"]


@dataclass(frozen=True)
class Words:
    """How one finding is told.

    Attributes:
        title: What it is, as a heading.
        found: What it means where the network has it.
        absent: What is true where the network does not have it.
        follows: What comes of it.
        question: What was looked for, as a row of a table.
        measure: What its number is.
    """

    title: str
    found: str
    absent: str
    follows: str
    question: str
    measure: str = ""


WORDS: dict[str, Words] = {
    "neutral-start": Words(
        "No favourite class",
        "A fresh initialization spreads its guesses evenly: no class is favoured beyond what counting a finite"
        " sample brings about.",
        "A fresh initialization favours some class beyond what counting a finite sample brings about.",
        "Training starts without a prejudice to unlearn.",
        "whether guesses start out even",
        "γ",
    ),
    "weak-prejudice": Words(
        "A mild favourite class",
        "Each fresh initialization favours some class a little, and the next draw favours another; a typical "
        "one still spreads its guesses over the classes.",
        "There is no mild favourite: the start is either even or strongly biased.",
        "The classes that start behind catch up a little later than the others.",
        "a mild favourite class",
        "γ",
    ),
    "deep-prejudice": Words(
        "One class gets most of the guesses",
        "A typical fresh initialization puts most of the data into one class before it has seen a label. Which"
        " class that is, the draw of the weights decides.",
        "No single class takes most of the data at the start.",
        "Training first has to unlearn this, and the other classes are learned later. This is a regime, not a "
        "fault: without norms, the most trainable networks start this way.",
        "a class that takes most of the data",
        "γ",
    ),
    "prejudice-grows-with-depth": Words(
        "The favourite grows stronger from layer to layer",
        "Each block adds to the bias, so a deeper network of the same kind starts with a stronger favourite.",
        "Depth does not strengthen the bias.",
        "Depth alone would make it worse; changing what a block does changes the trend.",
        "a bias that grows with depth",
        "growth of γ over the depth",
    ),
    "zero-dimensional-signal": Words(
        "All inputs end up looking alike",
        "Deep in the network the differences between inputs have all but vanished beside what they have in "
        "common: every input is answered with nearly the same numbers.",
        "Inputs stay different from each other on their way through the network.",
        "Later layers cannot tell apart what arrives the same, so learning starts slowly or not at all.",
        "inputs that end up looking alike",
        "share of the signal that tells inputs apart",
    ),
    "one-dimensional-signal": Words(
        "The signal collapses onto one line",
        "Deep in the network the inputs differ along a single direction only, however many units a layer has.",
        "The signal keeps several independent directions.",
        "At the start the network can only rank its inputs along one line; further distinctions must first be "
        "rebuilt.",
        "a signal along one direction only",
        "r_eff",
    ),
    "exploding-sensitivity": Words(
        "Small changes of the input blow up",
        "Relative to the signal, a small change of the input grows exponentially from layer to layer, so that "
        "neighbouring inputs arrive as strangers.",
        "Small changes of the input do not grow exponentially with depth.",
        "What the network learns about one input then says little about its neighbours.",
        "small changes that blow up",
        "growth over half of the depth",
    ),
    "vanishing-sensitivity": Words(
        "Small changes of the input die out",
        "Relative to the signal, a small change of the input shrinks from layer to layer until the output "
        "hardly notices it.",
        "Small changes of the input reach the output.",
        "Details of the input are lost before the last layers see them.",
        "small changes that die out",
        "shrinkage over half of the depth",
    ),
    "exploding-gradients": Words(
        "Gradients grow on their way back",
        "From the output back to the input, gradients grow from layer to layer: the first layers receive far "
        "larger steps than the last ones.",
        "Gradients do not blow up on their way back to the first layers.",
        "A learning rate that suits the last layers is too large for the first ones.",
        "gradients that grow on their way back",
        "growth over half of the depth",
    ),
    "vanishing-gradients": Words(
        "Gradients fade on their way back",
        "From the output back to the input, gradients shrink from layer to layer: the first layers hardly "
        "receive any.",
        "Gradients reach the first layers.",
        "The first layers learn slowly or not at all.",
        "gradients that fade on their way back",
        "shrinkage over half of the depth",
    ),
    "exploding-signal": Words(
        "Activations grow from layer to layer",
        "The size of the numbers multiplies with every layer.",
        "The size of the activations does not blow up with depth.",
        "Deep layers saturate or overflow, in half precision first.",
        "activations that grow with depth",
        "growth over half of the depth",
    ),
    "vanishing-signal": Words(
        "Activations shrink from layer to layer",
        "The size of the numbers shrinks with every layer, toward zero.",
        "The size of the activations does not fade with depth.",
        "The outputs hardly depend on the input, and biases or rounding take over.",
        "activations that shrink with depth",
        "shrinkage over half of the depth",
    ),
    "dead-units": Words(
        "Some units never react",
        "These units give the same answer to all of the data, usually zero.",
        "Hardly any unit is silent on all of the data.",
        "No gradient passes through a silent unit; if most are silent, training cannot start.",
        "units that never react",
        "share of units that never react",
    ),
    "large-logits": Words(
        "The outputs are too large",
        "The outputs of a fresh initialization are so large that softmax turns them into near certainty.",
        "The outputs are of a moderate size.",
        "The network begins sure of answers it cannot know, pays a high first loss for it, and its gradients "
        "saturate.",
        "outputs that are too large",
        "typical size of the outputs",
    ),
    "high-initial-loss": Words(
        "The first loss is higher than that of guessing",
        "Before training the loss lies above that of even guessing, which is the logarithm of the number of "
        "classes.",
        "The first loss is about that of even guessing.",
        "The first steps are spent on making the outputs smaller.",
        "a first loss above that of guessing",
        "loss over that of even guessing",
    ),
    "modes-differ": Words(
        "Training mode and evaluation mode are different networks",
        "Before training, batch norm in evaluation mode divides by its initial running statistics (mean 0, "
        "variance 1), not by those of the data, so the two modes answer differently.",
        "Training mode and evaluation mode answer alike.",
        "Early validation scores speak of another network than the one that is being trained.",
        "train and eval modes that differ",
        "factor between the modes",
    ),
    "uncentred-data": Words(
        "The data are not centred",
        "What the inputs have in common outweighs what tells them apart.",
        "The inputs are centred well enough.",
        "The first layer hands the common part to every input alike: that is a favourite class, before any depth.",
        "data that are not centred",
        "common part over differences, C/V of the inputs",
    ),
    "norm-before-activation": Words(
        "Norms stand before their activations",
        "Each norm is followed by its activation, whose positive mean the next layer receives as a common part.",
        "No norm stands directly before its activation.",
        "Where the norm stands decides how biased the start is. Both places are in use; they start out as "
        "different networks.",
        "norms in front of activations",
        "share of norms in front of an activation",
    ),
    "tied-guesses": Words(
        "Several classes share the highest score",
        "On a noticeable part of the data several outputs are exactly equal, so which class is guessed depends"
        " on rounding or on the order of the classes.",
        "The highest score is almost always one class's alone.",
        "Where many tie, guess fractions say little about the network.",
        "classes that share the highest score",
        "share of tied samples",
    ),
    "labels-guessed-alike": Words(
        "Some classes are always scored alike",
        "Two or more outputs are the same function of the input, in every initialization.",
        "Every class has an output of its own.",
        "Training cannot tell these classes apart as long as their weights and gradients are shared.",
        "classes that are scored alike",
        "distance of the two outputs nearest to each other",
    ),
    "one-label-preferred": Words(
        "Every initialization favours the same class",
        "The favourite is not left to the draw of the weights: one and the same class is guessed more often across "
        "initializations.",
        "Which class is favoured changes from draw to draw.",
        "This comes from fixed numbers, such as a bias in the last layer. It helps where it matches how "
        "frequent the classes are, and costs time where it does not.",
        "one class favoured by every draw",
        "preference for one class",
    ),
    "non-finite-output": Words(
        "The output is not a number",
        "Some outputs are infinite or not a number before any training.",
        "All outputs are finite numbers.",
        "Nothing can be trained from here: the loss is not a number either.",
        "outputs that are not numbers",
        "share of outputs that are not finite",
    ),
    "constant-output": Words(
        "The output does not depend on the input",
        "Whatever it is shown, the network answers with the same numbers, to rounding.",
        "The output depends on the input.",
        "There is nothing to learn from: all inputs are one to this network.",
        "an output that does not depend on the input",
        "share of initializations with a constant output",
    ),
    "probabilities-as-logits": Words(
        "The outputs are probabilities already",
        "The model ends in a softmax, and a loss that takes logits will apply a second one.",
        "The outputs are not probabilities already.",
        "Behind two of them all classes look nearly alike and gradients are small; drop the softmax, or use a "
        "loss that takes probabilities.",
        "outputs that are probabilities already",
        "share of initializations whose outputs are probabilities",
    ),
    "few-initializations": Words(
        "Few initializations",
        "So few initializations make wide intervals, whose width is itself uncertain.",
        "There are enough initializations for the intervals to be trusted.",
        "What cannot be told yet may be told with more: type a larger --inits.",
        "too few initializations",
        "initializations",
    ),
}
"""Every finding that the checks of ``diagnosis`` know, in the order in which a reader meets them."""


def words_for(finding: Finding) -> Words:
    """The words of a finding; a check of somebody else's speaks for itself.

    >>> words_for(Finding("dead-units", "dead units", "found")).title
    'Some units never react'
    >>> words_for(Finding("my-check", "Too many layers", "found", because="Ten would do.")).title
    'Too many layers'
    """
    title = finding.title or finding.id
    return WORDS.get(finding.id, Words(title, "", "", "", title))
