"""Which letters go together, as far as a tokenizer cares: what the heuristic counter knows of it.

Letters that often stand side by side are merged into one token, others are not. Three tables, all
taken from o200k_base: what a pair of Latin letters costs, fitted to words of conversations and of
code and to random ones; which pairs of letters of other alphabets occur in its vocabulary; and
which Chinese characters and Korean syllables do.
"""

from __future__ import annotations

import zlib
from base64 import b85decode
from functools import lru_cache
from itertools import chain

__all__ = ["HANGUL", "HANZI", "LATIN", "known_pairs", "single_signs"]

_TENTHS = [
    "71109526263010927010335606",
    "16661766245058078245157636",
    "17360770270347076140177837",
    "15740657067477267427357737",
    "26002327575010834000734037",
    "16761176066358176452168626",
    "37881841278565389336378636",
    "16960767167655078561367627",
    "25110308975120016310839562",
    "47763767556677376757386658",
    "57761667285665668826667649",
    "07630787186279079833257708",
    "04850788277537226946468738",
    "18211306154564257800248736",
    "44327526362100127031030547",
    "08750773367068027031267637",
    "76878997799467984767086659",
    "07510647092524087421356707",
    "38381682183667237800176938",
    "18670791098558259113177609",
    "32232629387011828000778766",
    "17970878077788386687777657",
    "07650864266564069546755547",
    "57575697399768759875779547",
    "79986999799776679945899978",
    "37771867586667779787587644",
]

LATIN: dict[str, float] = {
    chr(97 + first) + chr(97 + second): int(tenths) / 10
    for first, row in enumerate(_TENTHS)
    for second, tenths in enumerate(row)
}
"""Tokens that a lower-case letter costs after another one."""

BLOCKS = (
    0x7,
    0x8,
    0xA,
    0xB,
    0xC,
    0x12,
    0x13,
    0x14,
    0x15,
    0x17,
    0x18,
    0x19,
    0x1A,
    0x1B,
    0x1C,
    0x20,
    0x21,
)
"""The blocks of 128 code points that the second table is about: Greek to Georgian."""
HANZI, HANGUL = range(0x3400, 0xA000), range(0xAC00, 0xD7A4)
"""What the third table is about."""

# A bit for each pair of code points of a block, block after block, compressed.
_KNOWN = (
    "c-rkf4R93KdGGD*o>m~iN)~W&4ZKry;e?TqaIm2m*pnpznT~s?AyGQU79Nu!(|Rh?($aA-"
    "?@lKjCbl`tGI1R+XEmXebZpfnX6hzrPiMfXCqcm`CfL~LNg0@FDU2NqhMcaur`y~2t#m7$bV^dQ-"
    "`Iz~eeZqmd*A!M_x<ed9YQvkfD@7Ec8}5rU~&}V6qQ(w7l&P`%t>0mMy$9YmFE7`s=F6VqWxJ(Ico;Y6Cy&!KHucS{nh"
    "UQe9CY4fmKM-"
    "T+n{~&|a%m(w6Pps~Eg?(N56)a?fi$l>iS`Zf3{d|9FaRr%?)}DlVVHqOCm#DqC50SNvpOJ)pny&NhI*K-"
    "l>%@9)~s%;K-MODs-$paRi7D^gXE{-"
    "SagKX^F0*+M=_&+gAQ!}ZT+ak*saJ`CH*A_i~k>8X5(B^ZVDWmG%YJf~!}|KgIp@IvoxCWW12pKCVQFjgRiA|w}>Ucn%"
    "Ho;*KTgkC&yclNx(vWVPkic2z_qcWL8o^LosnQ5<EZLFwFo`yd9MzKNoo+5NliG$OZj(CL3(Lfy|k2@EBi9WStUQR}_q"
    "K;ovD#Gm%{rcZRBZu4@#4LYqpF?!}#O(TJZgrp+ejGN=;|7e}s||j!&xPEw=*?dEO%Yyvwls?hF^5XC*qFb>flj{C4%N"
    "kn0e9F}4BD$qYjR`Wn1AR5mkOtws;j+67)c9rGL%ZC&Yx^F@N?U4|9L$#D4BfaCoGM>f8?npES^eU`mqe@9p_4zJ$_^d"
    "=)XO=@ZU}S-)d$=`1-c<#ccb<ZGSplW-"
    "i=FzH+@D(Ax+2OFfcG)l)$K*Fhg6|BHXM7xJI_jK%wssboFC`>uojeW|zn?0&A94P?CVTho`axX1S=*I0V)M@pBn@?V_"
    "%nTzeO>a)ZKOjnX&5MdtayA)^T(YIyQPucblj$C!K4E=J&iF?`h!M^kH;Ywk^`^$=e(vT5ib^x`!Y!w23FnB(uF!Xpee"
    "5Sx2Abs<B;Wo{0?oY5ad++Sv@`|Tyu)zi!Zd#z4ck@eaZ3vCMFv97<jB%lLf_#i}uFDgOt2xs|X8ws~(Q9~|PeyT)oH*"
    "(GhE4oVYF&!^oEyQn2UCMAUdhX40B>o1iN*i;Np~ZQKQMUZw=6zKl%PJlWUrMz_lU#?=0g#HKXCGN3ba@ILEyyg@CN{n"
    "WibCkUw9PoUn#Z;a6Z`oOJDhFv6VjW|3U)LTlAtI%IAllTmtmHa*W0AfAtEGch3_9@*~2Sl@n!?zRM1<zJHcG;P`I=e("
    "u<De`A+v&&y2sEqNYL*!CSZ+?0^7bGz@ePk^yZJ9W#%jHjH>YrH#P?^!n7QzbW;danr7gx-"
    "4>;LAP{0RGskA=v*0?4L@d0A6=J<lq_n@ss}u+W)PK&*G60#+$SERBD!KzN<x6YfOFku4Q}jzdr@-D{kxs-"
    "skbu+quW94FBu1VN3eU-mU=j{^Qvu$p0?5-"
    "m9ta0{rl&&lLUM^usn08*ZM{(5Z#uhBJ}R&f!1C*)&fz)j{VVW6Sgn7uw3&_Gc;XZ<(Wx9zMbiGPc{So@|3pr9<g-"
    "QTRYA<xCajc3#gX2a5*73_S;j{)U}DJeRx7;`=UPz+bozy($>|?>up<b8tG-{`GQno#F5OtLplO@HBtH<1@L-"
    "O#A7pPwVSR-}Qd;{0n;jG<|x$hu_Tfr@sz5drKMoi#xebS^k_H>IM7{;!jtx{GULVh2LG`eBf?X-"
    "Yoy&>m2JFcI=vqE;Ic7kGh|!B4>8}&uja;OUUBN)jr4IDrYuj9{BED{*$5oj%pwOtMwnE_s#StKZpM|qd#ZT`ofR<G^P"
    "QL`%MuCVzoAty7^gs?c~tqW3U4;)jEd%X@d=giZ-SoKQ=`lCViDzeO1khnkxb9dBV>{14Sl!InNV?mw~n?p8NPm8ysWh"
    "o#ztEFK^qJ?cdp+kbZU6z<El#%YB|Kx9Mf@#$ud^bpKf+59bpKS5<Iw(F*Qo9!Q@zNw?HueQDWva-"
    "N=Q4o3faizmKonbBV=69&SWN>@nDy4ELZ;=7h+*H5*3{GpubqdH$qP}-UMr3CZ+?Zx_diUv-3-"
    "VRqo^)Q{0%$BNu_&iESHH#yq1DtfiKwuHfH!z!f1c=g+p*IZ?zU_)9yPh;O@=72}KPt+<*cb!tKDW}Y%cCP2@qgrrhnM"
    "D%HziL#7(1%Tv({ihm1ngsZ&LBKfDjMgKGaUB>QVx3MVB{^qhCH9+sN(*ZHamA4U0P7%3n+VSA19XaIp`yNBQz++)7{>"
    "yki>3tsjxDj*ao}F!GhkJpIQ05NWl7lz=y@?_X<9vg;?^TR-"
    "x|!c)hp(Hf&z3FOe9&hUl4RPvHxk2LY(_2fmy9$WXEIc3=6Hv<=5|6toi%-"
    "G|ex7P{4UfPf{?$WmtCH8DS#mtXL#iOxCM!lkxdn$LZ6T*q^_tu?rpv)a?mA{CD*#jbxypcTTxXE0GY!`EEC=7@da@L<"
    "||0Xb!8piB^ReP3um#gPR`uudDAUd#TV11)wDD1#$e4yHEAZ@QSN2R4=t-"
    "w!OWKB`xd1>AF1B##~6+U+wLXjMKbU;wl^PlQ*fmDW+pb=8Zu3A18H2e(}hf)$4<gxx53kvlz?GjdkOn>TA;{#&MHv)5"
    "v|Bq_jvi>)-&5Ei2fC=}T&l^e%(yeQ;GUV^@5WjxazXARmW4o#$|LsJ_cS!y#sK31$^3MoD+N_R$dWm-"
    "4>+J#!X8c_Ukva7<8sj^wwHl;Bzf&9%0Y!w1JR`(+Ez#+>qPDfjA9U&IsJG<WsfM^Jj~r=bv_#v#K=pVvM)Uu;KS&Juh"
    "^qgmnFqjBdvW@=3H?TVBv!b7!N;Z+=auHlG?)M9E~IWGk2=(CifH!uM)1O(3{Ev%(+B@4A)_*yy(SKwzH-!|;~I-"
    "ng8=+}8&AjW|AX9xJ!g`Dz9{8!*N{Vr?!=ak?09Zi8Xi4+<H}JC;&T3Te_K)+yRt;Jcs~{pkqsI9Tp}YSOu+e@k*9q(d"
    "psb4ctHOEj>w@~^N5F8w*CJrsQyi~)E`=4%^Jwhp7E%f9T?5uKzee!IEp+h^H)^gK`bItggFPvEl+W@)nGNgu<GJg=NE"
    "I19m=orldm%Ne2h@375g2mzF@34iVLF{AxBjD^L0kOOGXJ^^69t(HK36m1;-q;Pdu#7HD2IHs;A{amd8=6;-"
    "!gy8*CUgBLuI?s`+j=hj`oZXH6;5{qdH3>^mCi-RNQJdx{h}x&ea}8M8Mp2m-"
    "j8|4R=~YP?5Lqh})fE23i2@_egrD2;!I$*&~|%bi3&zYuaotL1jW=KrIyBgkQvp2|Yj-"
    ">T=K>(mB?ZRbV|sSJNB`UDx|=jLbEcv<Q2TA2*-1sHm@4LH_bZ3H%wvI*3qWh`XkYr{V}^!mJNf5cbS-"
    "|o$+Pdjc6Y>dPE8^x4n>-(r;0OPnZUW-hs6~P!UoeqfcU0#D<zt1CgX6yf?V(U*g#lzlQftsR5S4cMKw`%`e!~+Wd0^R"
    "`X|7a}^1{wMyHtHvuzDR%R=?^bq)CFx&+Pwwx|Lqs{46^lpbl}jLi|4Wm*FZNNdN#)1kJ}`@xrJ#*<jL}i(wy;q{{H_$"
    "_hU@`KX)Z9$9e*ZLm!`o<6-"
    "C+egDRlo38$EgAIQu^%Uw_wUWhoS3ii?L$2^VD*{0monFuY&s9`mx|C;nz~TJnYg(>^YbIQl(*Fn|A6AZ6S@D+-"
    "J@x#)*G)P11bEYG$8IK`>Yt|^uNl9-h=>RAh9s*_m!a>XbCqKYCZLa85yKxrQj?%C_g{FIOq8N(;NKKOK5Bm-"
    "QXGuDq<YM@bI7M|fw5m9sr`?XxO=?&U2uEc?K-~Fg!i!u9hAUZKcrJ_hw(C+(1X`h3{HpkADjoy2k9uW-aj-"
    "O)=TQG@_!O?9bahYZ#LLa5J)_C^2-"
    "nBbN?TmJjdqOgeuJQJ!*T%&sSOI&;9~F>#Xr3`>Np6k#auA1IcqfL>Ku=mE#LWCX>$hu&A_GjV=30*Avuy`B=_;Fp5w>"
    "zn?xP{?hg3u-l?t^M7NeN0EFKo7bxtVx#Hj7urqvzabB*5~zyBNp5*Q6z~j>FBo}p6wCEwWd1dr25?*-"
    "uRZ@KVYkw`z{vkkpKFaBug<MM<(MCykLTo<@O~u3b^kx~yr}8<%K(pfmfu#~e;m@MK3pjMPjsIF`G2(g%vt04z6O~@nv"
    "b&ie<E~d%MaMuyUR`WGJhTkyC&~?p_H|Mbv~9KME%%fX}^A^KB($Tq&e^di~K(N&h;x7ZU1kB4F&W6C=dTn(dCV-"
    "J=0J#^|AJj<TB7cjE0{t+`}p9`SAFk_ZvES#C-"
    "bGN?fX(sDW2y=DeRG7b{KojLrY+{<Pl89|w@)s~RO^XB`(t)I?7<t%6$3Co}w{<Euv8e=q3om7)BE*omr<;{(nA*ZVw5"
    "+?(5fG$R~yE-*=%F!2W}j<fl;>TDIGz8<9m0eAcalmE-UjY?DY{sWQD#2${Vs<w##0wf0fGv)(LIpss77L4ORXX7gjp8"
    "rIvsk&%Ge!Sf3=|2YU4+u(sN#Xpz>JJV3lRxS{lg4$1qI`J=@c*>A(apy1JjcU;T=oB49_K+w4wYu-"
    "<56ow!WY4K8Dnf^f6WpbKSU!Zg_lN-S~LFthVB1tu%SReF{&l`<p0XaEA!a%1Ghx~LPsRcKS~|h`rk;7m9~VY<nT-"
    "5^54{jE3h#iK~lc;e{A|zBoSN97xKnd#!l3v-"
    "TGFuze)>1cFV^7@3jAi>%=0>^w+Md`6^cWy_Wu;Hd@~=mJNSSI7x6Q8GkM1qGyrc4%Pn&lfNAml(!autXwhgDeM0v0s4"
    "O_wqN)EWQ6(p*9N{mtp4vay}uy4_4Q~Z+zQW7Y6;BhKVjtiNb))KdWuW+M+2wjO<Di0y?NrIBv$Wb*86>;==FgiPlL_z"
    "5#^Y8=yYJc9*;=r{8jDWZqP@rz|dnankJ>`ZNRGkr@DRc+WVMt!SerT*R^Cy_y1dY`K4c;Nv3q_OSJmjtw;Zf@vp7@E$"
    "jLmjD1p3n95~cfBHkor+yYJ53nyYwnk0|Zs^~}JG5W8(sH#felhFc>6`Cl`TOb!^Syih)Fs>h+wge?5T8pv1?DT}{AFT"
    "Lk@tvbxpl!{!Yobdmsj)o50NKzvsKUFC7~ITwLW0y<Z&<wk5lvfsEf89Z>a;tC^U-NhGsi0c3nWB85Q|xpcI-"
    ">Zl&?q;*AfQ9$%4b|M>Ke2T|T=7gaoTn}zbK`WUJh`=$}jD~8rP$6^JUdRVc#UY;3G5S=l3Hri893j6g(oEP2@thdxON"
    "}5Ydi3()LYn2g<=ltQYn4bmOZ}Ztu7+>Q<-"
    "0PJqPyidwnvy1L@kU<dLA2K~>K6rPU?!q>P_Y6PXXtZS`x@ny809?u5H|(A#>}q;4~bEZ7YV*oBwG3!p0jrO+;9|U=T{"
    "S9T2*y~3zX}vH1scIg`>le2S>>p4xOKfnthhIS7NE0HQu|hPH!ge4R<a`;qR5}D~U9T<Stys$bUYm#gtip6_Pj@aPiFg"
    "sdGN+GTO!Tf6NPjn)jKRU1JyD_LbnY*EpP+Z#Rl`9;}+>D9)^>3%4}vj2?D`+5KjC>qHUf_p1&&Xbyb{V#&Fm+=aSt$?"
    "m`U(FC@WRR)UMrX3`G4nZ%$5W>BToEXwK_OA=I?O#}R7=^}oAeRdfr}jPGI=L?QkM7&g8*AEKbM3^-"
    "(=ogI+z!zYZx_Bi{biM1LD1VH^_`mfWyS}G%V_Ag_#C>tmQ0(^v<DHHrZr2yqbJyRPw)NU73N-"
    "*Q|LW5pQ*KQLhpTdu=hp;;$*!IFGl|J;Oeo@*M(}GY%Pdla_j!8QY4YAHU^(2C0TKC=5%M6agqk@2}NO|A-"
    "oMX+^o=x;Ll^yhTHNZpg`{(F?sXoMALmbX}PVW9Tv6DyDU?e(atyGYy$WuG|N=#kj7rlP?1{nxGBANf_A@i1KdAsc|!u"
    "#j@_9MEqRpwkYAsMOC1UeXc1^1{$)7Wke*vzq>}SzD`ZsH!nw@JI-MBHbeIF<t>aD8{LB~RI8ZCc>WkY{eo6<DwVc_$Z"
    "Lq<Hn-"
    "K6wC%g?d*kFSV45U<G@n6+U1@Fi_S_8k5Y4OrE*fc)L;{Pyv7HBW413zAe?yR{TTu5z)^VgZ?`|$RsLH`f`?uTbteEGr"
    "^;Mez35B7ofGLPvirA+r2QrqwNkj0;SZ1#FE{>~>rSb5@syB~z~r^+nuUOF8_xphn7Z+zF)!ujj!N`buU%3%A_IuXz>T"
    "f7F2uX)1K^)0KJ3a%_Cwr51>{{Wh!-Ea"
)

# A bit for each of `HANZI`, then of `HANGUL`, compressed.
_SINGLE = (
    "c-rk(QH)zh6}@*ncE`@9nzwdZ??T1cF^Q9u@^+h|B7Vk>8=SHQrzs*5{V-9G_M@WV2db)qvEwXmQ;BU9q*m>Rvq2CLs6qU"
    "c4<u*RhzJQ3r2<vrgVG9#A0&|IR}tdgnfJV2CqymZnbq3w&AW5w+;h*p^9*oj+!=Sq|2xh;ef*(QpZxOE^{>8k@eu5=tv`"
    "Kc<;Jseu=}ZJG7p#DtcxG^e|*$Mk$q?1VqPd`71Yl<<328(5mrd3=lb&so^TFI2Ch2;ARrn7j10RMnm;ADXAj&fN1yxPv)"
    "zZ}BI=*3#yK#@M);{Ka_!Sgg)2J;H392uHE;meGI!nGcTn3X0g%73AP;w+z54I$_tdL+vS7|wgyGzGZ{Rbp{SM3DzIbi?i"
    "v9v-0VUQShO!07(#92l6E#Uo5!i(t0CeeAOIQLs1|T!u44R;5majCMPL1|XbKgmuZ}k-BTW1ER?{Ct2rNTpH{hA!_AYhq3"
    "=Ns%v!LZ4G`rbnp);GH62Vb1exwALGz}veA*lyC^1*<+*B0Kj2zyf<9IMRAR>`|GV_Kw59AHO(#Tmb&`RrmfU+Q;AR=(&;"
    "2+du#D?~m6si1+utXsmI9%$*Wd<s%W$2yxzebl+{<qaKJF#{TU{#Q^8)$zL5Gys<v6JHM}jvAl0E>LG080PcsD$Sgj%aK?"
    "(mFPl~4ialja#-21Al1x<=WZ&{ScO)ypNTIQ(nB$>m`Ut>aieQ<<h3@lc<sY8M)dz66cxV&lrK1N`HSSiQe8m*i^)(@2zh"
    "hF2lh%PMO7$c15B;nXMziM*#2~M8qKO{`Ijg&LU1L7|FyQQO%}af;qL<Kt6MBTp)uDsGK4@jDQ+AaL(2;6R!j+?P0Gj{}u"
    "i6-3*IW4m?h^c3$j3G_>(vXH@jUbnvS;lUw1GwChJ6sy6;~nwbt1b;`&nWPm6V=)BXt@w7!$JugMd64hNu$-pYlYFvxA;}"
    "A7l%t$i5?9Q!p2tR^K_OSa0CY5y2YQgmXoJS|QWw=cIaJK4;V(%o{4%wvn=ZqOG(&ybh321$(;YsTZoR45G@MV=R{OjFC0"
    "t@d!DO+DWHDdd=$yx&e|%z|RhKsbYbP#KOI-?Xd~-BzR3xi}j=z1P_MeP2~Ar#YIq96NxI;Et&NIHAG}khLw~;z;&t|&OO"
    "T&4cNB#S)RBG<>}Gsc9{CX9KODjq$12*gJ!5Qhq5zDO;eh~7SCNzJlX7To-bS75R2f*o2GwNNR1OXrm9?y<QG~80piOphk"
    "zw9f#Js!<gsh0Ckf}<&T6Kf>sd!~UFH1>&U&so17VyoA&||Av*c!;*&~z38E=zlr9cGq#Du)iBEljCVgTCm6Q3-#WOVM#5"
    "Jib1Xu@Hh;^HI_QX(dy*nm2X?dtiTU3~k({$IL1no`!Ly3$;55)RYS7Qqo<gy!}I<pa7GSTE^EU@!nRZ(+Glg6r50b+wA5"
    ">L7$<O2I>ZGhxp#HL6yYu5x}1B@|u^?!^`tI;<BeFzQnTB1sZyQ)Hn)hYU281+~UrG{pc~Q&mN@MmV1z>FJOYMkf3uy_7e"
    "%CEt;Zo)&=JP2jnF!*HRxU{bG;2*cdEnW7%5{TL1gY6P&ynPnY<o~~ur99rq5GGEC^VC`lf;a*iJaocDCMX*c-crfdnnl$"
    "cu5(HYV2`a{W-pgJ+ws)g;a&+#oLSAW!eXtxjk<Dl`MYqsnu+n26{pTl_GxINZR(7d>f|=uN(VrG0=+(m+nA?IV(juz)*p"
    "1?ef$yzg-_rF}@o2k^cYSN4QTzbrdetwj?OMx2Zej4$8?f($=|yDNZjlF;ZpCb|#hT+%Vma`!@Gr5A8l8O3_7y+xWa?y!@"
    "LOCdf9Gmeuog5^x?7=WS|27K77h!F;>rcrUoWXDKa$T4Pc0#oa(}7WHzRH)_M1>`&Sl4{XZ+Djd$gKa0aIOrE~vSF1CdL="
    "46&xh+5LS7HkUji3)ehuUYa88A}N`OiKZh-9Wug0ZP0zGxiEdp*`lH5wEPgSb2^bY&aid6;R<v@hHi}9og4*RF56rqNZ$8"
    ")#V#2D9eUdmSH!)`TXzxepxv>EvG&jE+6yOz6i3Mmp}*q*i<k-PQ0wVTCJXdUEKPDgBNVN*fzTBqEYex!)54bInz${7QjC"
    "xbV0s<Ss*Oy1U{Hw{E>q)5caF&qPOLeUumGbF!`3sMnz+P7Yzu|c54RHX{~XgGVo`)0CKPHM#dPQ^`pS5AM^iongPCbBNN"
    "0F>vxzQ?W4IdQR2n@K5sboJeumv>mL*IRK039aMP|w}rb#eS0+3_Z+w?N6AI7QE9SZo7e!1Lay@fH37?MdUAdZZPICj5eD"
    "{*Nk#YyI<V|YkJPhhu+A2n68kT7To;$86}iakyf_YaZ{;|z&2WErPLLMD`eAYl=T#8Bc`MDbEg#kE^+{Vbrn*moG6h_<{f"
    "M<D^*AYmn}I}qO{BJ-g`WG~0?Yw>i7_l4aPNM^PybP6f?$^?@lR%V(2X^Et-CmIyDQ-DvLPA!SEcsgj_b^>q~lHTqm$TZ="
    "TrC+?MFQKP(%4hlvE3=R$y&xnmlaL$n>n(3o4PTW+nDJI~+ztuATe7773*`!0lm"
)


@lru_cache(maxsize=1)
def known_pairs() -> frozenset[str]:
    """Return the pairs of letters that are part of some token."""
    bits = zlib.decompress(b85decode(_KNOWN))
    return frozenset(
        chr(block << 7 | first) + chr(block << 7 | second)
        for place, block in enumerate(BLOCKS)
        for first in range(128)
        for second in range(128)
        if bits[place * 2048 + first * 16 + (second >> 3)] >> (second & 7) & 1
    )


@lru_cache(maxsize=1)
def single_signs() -> frozenset[str]:
    """Return the Chinese characters and Korean syllables that are a token by themselves."""
    bits = zlib.decompress(b85decode(_SINGLE))
    codes = chain(HANZI, HANGUL)
    return frozenset(
        chr(code) for place, code in enumerate(codes) if bits[place >> 3] >> (place & 7) & 1
    )
