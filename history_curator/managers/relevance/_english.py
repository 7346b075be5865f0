"""What is known of English: empty words, words about the talk itself, and irregular forms."""

from __future__ import annotations

_EMPTY = """
a about an and any are as at be been being but by can could did do does done for from had has have
he her here him his how i if in into is it its may me might my no not of on or our shall she should
so some such than that the their them then there these they this those to us was we were what when
where which who whom why will with would you your
"""
STOPWORDS = frozenset(_EMPTY.split())
"""Words that say nothing about what a text is about, question words among them."""

_TALK = """
across aspect aspects bring brought chat complete comprehensive conversation conversations different
discuss discussed item items list mention mentioned order overview said say summarize summary talk
talked tell throughout time told walk
"""
ABOUT_THE_TALK = frozenset(_TALK.split())
"""Words by which a question speaks of the conversation, not of what it is about."""

_FORMS = """
arise arose arisen, bear bore borne, beat beaten, become became, begin began begun, bend bent,
bite bit bitten, bleed bled, blow blew blown, break broke broken, bring brought, build built,
burn burnt, buy bought, catch caught, choose chose chosen, come came, deal dealt, dig dug,
draw drew drawn, dream dreamt, drink drank drunk, drive drove driven, eat ate eaten,
fall fell fallen, feed fed, feel felt, fight fought, find found, fly flew flown,
forget forgot forgotten, forgive forgave forgiven, freeze froze frozen, get got gotten,
give gave given, go goes went gone, grow grew grown, hang hung, hear heard, hide hid hidden, hold held,
keep kept, know knew known, lay laid, lead led, learn learnt, leave left, lend lent, light lit,
lose lost, make made, mean meant, meet met, pay paid, ride rode ridden, ring rang rung,
rise rose risen, run ran, say said, see saw seen, seek sought, sell sold, send sent,
shake shook shaken, shine shone, shoot shot, show shown, shrink shrank, sing sang sung, sink sank,
sit sat, sleep slept, slide slid, speak spoke spoken, spend spent, spin spun, spring sprang,
stand stood, steal stole stolen, stick stuck, strike struck, swear swore sworn, swim swam swum,
swing swung, take took taken, teach taught, tear tore torn, tell told, think thought,
throw threw thrown, understand understood, wake woke woken, wear wore worn, weave wove woven,
weep wept, win won, write wrote written, child children, man men, woman women, person people,
foot feet, tooth teeth, mouse mice, life lives, wife wives, knife knives, leaf leaves,
shelf shelves, good better best, bad worse worst
"""
IRREGULAR = {form: forms[0] for forms in map(str.split, _FORMS.split(",")) for form in forms[1:]}
"""For forms that no stemmer brings together, the one they belong to."""

_SHORT = """
alexander alex sandy sasha, anthony tony, barbara barb, charles charlie chuck, christina tina,
deborah debbie, dorothy dot, edward ted ned eddie, elizabeth liz lizzie beth betty eliza,
francis frank, gerald jerry, henry harry hank, james jim jimmy, john jack johnny, jonathan jon,
katherine kate kathy katie, catherine kate cathy katie, margaret maggie peggy meg, martha patty,
mary molly, michael mike mickey, nathaniel nate, nicholas nick, patricia trish, rebecca becky,
richard rick dick, robert bob bobby rob, sarah sally, stephen steve, susan sue, theresa tess,
thomas tom tommy, theodore ted, victoria vicky, virginia ginny, william bill billy
"""
SHORT_FORMS = {names[0]: names[1:] for names in map(str.split, _SHORT.split(","))}
"""For a name, short forms of it that it does not begin with."""
