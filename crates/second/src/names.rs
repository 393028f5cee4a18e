//! The names that both decoders have for one instruction. A test compares the two names of every
//! pair and lists those with different spellings.

use iced_x86::Mnemonic as M;
use yaxpeax_x86::long_mode::Opcode as O;

/// Says whether the first decoder's name and the second's mean the same.
pub(super) fn same(first: M, second: O) -> bool {
    name(first) == Some(second)
        || matches!(
            (first, second),
            // One mnemonic, two instructions: the string instruction and the scalar one.
            (M::Cmpsd, O::CMPS) | (M::Movsd, O::MOVS)
        // 66 REX.W 0F 6E and the related forms have both names.
        | (M::Movd, O::MOVQ) | (M::Movq, O::MOVD)
        // yaxpeax-x86 2.2 gives these a wrong name: it changes which operand is multiplied, and not
        // which are read and written.
        | (M::Vfmadd213sd, O::VFMADD231SD) | (M::Vfmadd213ss, O::VFMADD231SS)
        | (M::Vfmsub213sd, O::VFMSUB231SD) | (M::Vfmsub213ss, O::VFMSUB231SS)
        )
}

macro_rules! names {
    ($($first:ident $second:ident)*) => {
        /// Returns the second decoder's name of an instruction.
        fn name(first: M) -> Option<O> {
            match first { $( M::$first => Some(O::$second), )* _ => None }
        }

        /// All pairs of the table.
        #[cfg(test)]
        pub(super) const NAMES: &[(M, O)] = &[ $( (M::$first, O::$second), )* ];
    };
}

names! {
    Adc ADC Adcx ADCX Add ADD Addpd ADDPD Addps ADDPS Addsd ADDSD Addss ADDSS Addsubpd ADDSUBPD Addsubps ADDSUBPS Adox ADOX Aesdec AESDEC
    Aesdeclast AESDECLAST Aesenc AESENC Aesenclast AESENCLAST Aesimc AESIMC Aeskeygenassist AESKEYGENASSIST And AND Andn ANDN
    Andnpd ANDNPD Andnps ANDNPS Andpd ANDPD Andps ANDPS Bextr BEXTR Blendpd BLENDPD Blendps BLENDPS Blendvpd BLENDVPD Blendvps BLENDVPS
    Blsi BLSI Blsmsk BLSMSK Blsr BLSR Bsf BSF Bsr BSR Bswap BSWAP Bt BT Btc BTC Btr BTR Bts BTS Bzhi BZHI Call CALL Cbw CBW Cdq CDQ
    Cdqe CDQE Clc CLC Cld CLD Cmc CMC Cmova CMOVA Cmovae CMOVNB Cmovb CMOVB Cmovbe CMOVNA Cmove CMOVZ Cmovg CMOVG Cmovge CMOVGE
    Cmovl CMOVL Cmovle CMOVLE Cmovne CMOVNZ Cmovno CMOVNO Cmovnp CMOVNP Cmovns CMOVNS Cmovo CMOVO Cmovp CMOVP Cmovs CMOVS Cmp CMP
    Cmppd CMPPD Cmpps CMPPS Cmpsb CMPS Cmpsd CMPSD Cmpsq CMPS Cmpss CMPSS Cmpsw CMPS Cmpxchg CMPXCHG Cmpxchg16b CMPXCHG16B
    Cmpxchg8b CMPXCHG8B Comisd COMISD Comiss COMISS Cpuid CPUID Cqo CQO Crc32 CRC32 Cvtdq2pd CVTDQ2PD Cvtdq2ps CVTDQ2PS Cvtpd2dq CVTPD2DQ
    Cvtpd2pi CVTPD2PI Cvtpd2ps CVTPD2PS Cvtpi2pd CVTPI2PD Cvtpi2ps CVTPI2PS Cvtps2dq CVTPS2DQ Cvtps2pd CVTPS2PD Cvtps2pi CVTPS2PI
    Cvtsd2si CVTSD2SI Cvtsd2ss CVTSD2SS Cvtsi2sd CVTSI2SD Cvtsi2ss CVTSI2SS Cvtss2sd CVTSS2SD Cvtss2si CVTSS2SI Cvttpd2dq CVTTPD2DQ
    Cvttpd2pi CVTTPD2PI Cvttps2dq CVTTPS2DQ Cvttps2pi CVTTPS2PI Cvttsd2si CVTTSD2SI Cvttss2si CVTTSS2SI Cwd CWD Cwde CWDE Dec DEC Div DIV
    Divpd DIVPD Divps DIVPS Divsd DIVSD Divss DIVSS Dppd DPPD Dpps DPPS Emms EMMS Endbr64 ENDBR64 Extractps EXTRACTPS F2xm1 F2XM1
    Fabs FABS Fadd FADD Faddp FADDP Fbld FBLD Fbstp FBSTP Fchs FCHS Fcmovb FCMOVB Fcmovbe FCMOVBE Fcmove FCMOVE Fcmovnb FCMOVNB
    Fcmovnbe FCMOVNBE Fcmovne FCMOVNE Fcmovnu FCMOVNU Fcmovu FCMOVU Fcom FCOM Fcomi FCOMI Fcomip FCOMIP Fcomp FCOMP Fcompp FCOMPP
    Fcos FCOS Fdecstp FDECSTP Fdiv FDIV Fdivp FDIVP Fdivr FDIVR Fdivrp FDIVRP Ffree FFREE Ffreep FFREEP Fiadd FIADD Ficom FICOM
    Ficomp FICOMP Fidiv FIDIV Fidivr FIDIVR Fild FILD Fimul FIMUL Fincstp FINCSTP Fist FIST Fistp FISTP Fisttp FISTTP Fisub FISUB
    Fisubr FISUBR Fld FLD Fld1 FLD1 Fldcw FLDCW Fldenv FLDENV Fldl2e FLDL2E Fldl2t FLDL2T Fldlg2 FLDLG2 Fldln2 FLDLN2 Fldpi FLDPI
    Fldz FLDZ Fmul FMUL Fmulp FMULP Fnclex FNCLEX Fninit FNINIT Fnop FNOP Fnsave FNSAVE Fnstcw FNSTCW Fnstenv FNSTENV Fnstsw FNSTSW
    Fpatan FPATAN Fprem FPREM Fprem1 FPREM1 Fptan FPTAN Frndint FRNDINT Frstor FRSTOR Fscale FSCALE Fsin FSIN Fsincos FSINCOS Fsqrt FSQRT
    Fst FST Fstp FSTP Fsub FSUB Fsubp FSUBP Fsubr FSUBR Fsubrp FSUBRP Ftst FTST Fucom FUCOM Fucomi FUCOMI Fucomip FUCOMIP Fucomp FUCOMP
    Fucompp FUCOMPP Fxam FXAM Fxch FXCH Fxtract FXTRACT Fyl2x FYL2X Fyl2xp1 FYL2XP1 Gf2p8affineinvqb GF2P8AFFINEINVQB
    Gf2p8affineqb GF2P8AFFINEQB Gf2p8mulb GF2P8MULB Haddpd HADDPD Haddps HADDPS Hsubpd HSUBPD Hsubps HSUBPS Idiv IDIV Imul IMUL Inc INC
    Insertps INSERTPS Int3 INT Ja JA Jae JNB Jb JB Jbe JNA Je JZ Jg JG Jge JGE Jl JL Jle JLE Jmp JMP Jne JNZ Jno JNO Jnp JNP Jns JNS Jo JO
    Jp JP Jrcxz JRCXZ Js JS Lahf LAHF Lddqu LDDQU Ldmxcsr LDMXCSR Lea LEA Lfence LFENCE Lodsb LODS Lodsd LODS Lodsq LODS Lodsw LODS
    Loop LOOP Loope LOOPZ Loopne LOOPNZ Lzcnt LZCNT Maxpd MAXPD Maxps MAXPS Maxsd MAXSD Maxss MAXSS Mfence MFENCE Minpd MINPD Minps MINPS
    Minsd MINSD Minss MINSS Mov MOV Movapd MOVAPD Movaps MOVAPS Movbe MOVBE Movd MOVD Movddup MOVDDUP Movdq2q MOVDQ2Q Movdqa MOVDQA
    Movdqu MOVDQU Movhlps MOVHLPS Movhpd MOVHPD Movhps MOVHPS Movlhps MOVLHPS Movlpd MOVLPD Movlps MOVLPS Movmskpd MOVMSKPD
    Movmskps MOVMSKPS Movntdq MOVNTDQ Movntdqa MOVNTDQA Movnti MOVNTI Movntpd MOVNTPD Movntps MOVNTPS Movntq MOVNTQ Movq MOVQ
    Movq2dq MOVQ2DQ Movsb MOVS Movsd MOVSD Movshdup MOVSHDUP Movsldup MOVSLDUP Movsq MOVS Movss MOVSS Movsw MOVS Movsx MOVSX Movsxd MOVSXD
    Movupd MOVUPD Movups MOVUPS Movzx MOVZX Mpsadbw MPSADBW Mul MUL Mulpd MULPD Mulps MULPS Mulsd MULSD Mulss MULSS Mulx MULX Neg NEG
    Nop NOP Not NOT Or OR Orpd ORPD Orps ORPS Pabsb PABSB Pabsd PABSD Pabsw PABSW Packssdw PACKSSDW Packsswb PACKSSWB Packusdw PACKUSDW
    Packuswb PACKUSWB Paddb PADDB Paddd PADDD Paddq PADDQ Paddsb PADDSB Paddsw PADDSW Paddusb PADDUSB Paddusw PADDUSW Paddw PADDW
    Palignr PALIGNR Pand PAND Pandn PANDN Pause NOP Pavgb PAVGB Pavgw PAVGW Pblendvb PBLENDVB Pblendw PBLENDW Pclmulqdq PCLMULQDQ
    Pcmpeqb PCMPEQB Pcmpeqd PCMPEQD Pcmpeqq PCMPEQQ Pcmpeqw PCMPEQW Pcmpestri PCMPESTRI Pcmpestri64 PCMPESTRI Pcmpestrm PCMPESTRM
    Pcmpestrm64 PCMPESTRM Pcmpgtb PCMPGTB Pcmpgtd PCMPGTD Pcmpgtq PCMPGTQ Pcmpgtw PCMPGTW Pcmpistri PCMPISTRI Pcmpistrm PCMPISTRM
    Pdep PDEP Pext PEXT Pextrb PEXTRB Pextrd PEXTRD Pextrq PEXTRQ Pextrw PEXTRW Phaddd PHADDD Phaddsw PHADDSW Phaddw PHADDW
    Phminposuw PHMINPOSUW Phsubd PHSUBD Phsubsw PHSUBSW Phsubw PHSUBW Pinsrb PINSRB Pinsrd PINSRD Pinsrq PINSRQ Pinsrw PINSRW
    Pmaddubsw PMADDUBSW Pmaddwd PMADDWD Pmaxsb PMAXSB Pmaxsd PMAXSD Pmaxsw PMAXSW Pmaxub PMAXUB Pmaxud PMAXUD Pmaxuw PMAXUW Pminsb PMINSB
    Pminsd PMINSD Pminsw PMINSW Pminub PMINUB Pminud PMINUD Pminuw PMINUW Pmovmskb PMOVMSKB Pmovsxbd PMOVSXBD Pmovsxbq PMOVSXBQ
    Pmovsxbw PMOVSXBW Pmovsxdq PMOVSXDQ Pmovsxwd PMOVSXWD Pmovsxwq PMOVSXWQ Pmovzxbd PMOVZXBD Pmovzxbq PMOVZXBQ Pmovzxbw PMOVZXBW
    Pmovzxdq PMOVZXDQ Pmovzxwd PMOVZXWD Pmovzxwq PMOVZXWQ Pmuldq PMULDQ Pmulhrsw PMULHRSW Pmulhuw PMULHUW Pmulhw PMULHW Pmulld PMULLD
    Pmullw PMULLW Pmuludq PMULUDQ Pop POP Popcnt POPCNT Por POR Prefetch NOP Prefetchnta PREFETCHNTA Prefetcht0 PREFETCH0 Prefetcht1 PREFETCH1
    Prefetcht2 PREFETCH2 Prefetchw PREFETCHW Psadbw PSADBW Pshufb PSHUFB Pshufd PSHUFD Pshufhw PSHUFHW Pshuflw PSHUFLW Pshufw PSHUFW
    Psignb PSIGNB Psignd PSIGND Psignw PSIGNW Pslld PSLLD Pslldq PSLLDQ Psllq PSLLQ Psllw PSLLW Psrad PSRAD Psraw PSRAW Psrld PSRLD
    Psrldq PSRLDQ Psrlq PSRLQ Psrlw PSRLW Psubb PSUBB Psubd PSUBD Psubq PSUBQ Psubsb PSUBSB Psubsw PSUBSW Psubusb PSUBUSB Psubusw PSUBUSW
    Psubw PSUBW Ptest PTEST Push PUSH Punpckhbw PUNPCKHBW Punpckhdq PUNPCKHDQ Punpckhqdq PUNPCKHQDQ Punpckhwd PUNPCKHWD Punpcklbw PUNPCKLBW
    Punpckldq PUNPCKLDQ Punpcklqdq PUNPCKLQDQ Punpcklwd PUNPCKLWD Pxor PXOR Rcl RCL Rcpps RCPPS Rcpss RCPSS Rcr RCR Rdrand RDRAND
    Rdseed RDSEED Rdtsc RDTSC Ret RETURN Rol ROL Ror ROR Rorx RORX Roundpd ROUNDPD Roundps ROUNDPS Roundsd ROUNDSD Roundss ROUNDSS
    Rsqrtps RSQRTPS Rsqrtss RSQRTSS Sahf SAHF Sar SAR Sarx SARX Sbb SBB Scasb SCAS Scasd SCAS Scasq SCAS Scasw SCAS Seta SETA Setae SETAE
    Setb SETB Setbe SETBE Sete SETZ Setg SETG Setge SETGE Setl SETL Setle SETLE Setne SETNZ Setno SETNO Setnp SETNP Setns SETNS Seto SETO
    Setp SETP Sets SETS Sfence SFENCE Sha1msg1 SHA1MSG1 Sha1msg2 SHA1MSG2 Sha1nexte SHA1NEXTE Sha1rnds4 SHA1RNDS4 Sha256msg1 SHA256MSG1
    Sha256msg2 SHA256MSG2 Sha256rnds2 SHA256RNDS2 Shl SHL Shld SHLD Shlx SHLX Shr SHR Shrd SHRD Shrx SHRX Shufpd SHUFPD Shufps SHUFPS
    Sqrtpd SQRTPD Sqrtps SQRTPS Sqrtsd SQRTSD Sqrtss SQRTSS Stc STC Stmxcsr STMXCSR Stosb STOS Stosd STOS Stosq STOS Stosw STOS Sub SUB
    Subpd SUBPD Subps SUBPS Subsd SUBSD Subss SUBSS Test TEST Tzcnt TZCNT Ucomisd UCOMISD Ucomiss UCOMISS Ud2 UD2 Unpckhpd UNPCKHPD
    Unpckhps UNPCKHPS Unpcklpd UNPCKLPD Unpcklps UNPCKLPS Vaddpd VADDPD Vaddps VADDPS Vaddsd VADDSD Vaddss VADDSS Vaddsubpd VADDSUBPD
    Vaddsubps VADDSUBPS Vaesdec VAESDEC Vaesdeclast VAESDECLAST Vaesenc VAESENC Vaesenclast VAESENCLAST Vaesimc VAESIMC
    Vaeskeygenassist VAESKEYGENASSIST Valignd VALIGND Valignq VALIGNQ Vandnpd VANDNPD Vandnps VANDNPS Vandpd VANDPD Vandps VANDPS
    Vblendmpd VBLENDMPD Vblendmps VBLENDMPS Vblendpd VBLENDPD Vblendps VBLENDPS Vblendvpd VBLENDVPD Vblendvps VBLENDVPS
    Vbroadcastf128 VBROADCASTF128 Vbroadcastf32x2 VBROADCASTF32X2 Vbroadcastf32x4 VBROADCASTF32X4 Vbroadcastf32x8 VBROADCASTF32X8
    Vbroadcastf64x2 VBROADCASTF64X2 Vbroadcastf64x4 VBROADCASTF64X4 Vbroadcasti128 VBROADCASTI128 Vbroadcasti32x2 VBROADCASTI32X2
    Vbroadcasti32x4 VBROADCASTI32X4 Vbroadcasti32x8 VBROADCASTI32X8 Vbroadcasti64x2 VBROADCASTI64X2 Vbroadcasti64x4 VBROADCASTI64X4
    Vbroadcastsd VBROADCASTSD Vbroadcastss VBROADCASTSS Vcmppd VCMPPD Vcmpps VCMPPS Vcmpsd VCMPSD Vcmpss VCMPSS Vcomisd VCOMISD
    Vcomiss VCOMISS Vcompresspd VCOMPRESSPD Vcompressps VCOMPRESSPS Vcvtdq2pd VCVTDQ2PD Vcvtdq2ps VCVTDQ2PS Vcvtne2ps2bf16 VCVTNE2PS2BF16
    Vcvtneps2bf16 VCVTNEPS2BF16 Vcvtpd2dq VCVTPD2DQ Vcvtpd2ps VCVTPD2PS Vcvtpd2qq VCVTPD2QQ Vcvtpd2udq VCVTPD2UDQ Vcvtpd2uqq VCVTPD2UQQ
    Vcvtph2ps VCVTPH2PS Vcvtps2dq VCVTPS2DQ Vcvtps2pd VCVTPS2PD Vcvtps2ph VCVTPS2PH Vcvtps2qq VCVTPS2QQ Vcvtps2udq VCVTPS2UDQ
    Vcvtps2uqq VCVTPS2UQQ Vcvtqq2pd VCVTQQ2PD Vcvtqq2ps VCVTQQ2PS Vcvtsd2si VCVTSD2SI Vcvtsd2ss VCVTSD2SS Vcvtsd2usi VCVTSD2USI
    Vcvtsi2sd VCVTSI2SD Vcvtsi2ss VCVTSI2SS Vcvtss2sd VCVTSS2SD Vcvtss2si VCVTSS2SI Vcvtss2usi VCVTSS2USI Vcvttpd2dq VCVTTPD2DQ
    Vcvttpd2qq VCVTTPD2QQ Vcvttpd2udq VCVTTPD2UDQ Vcvttpd2uqq VCVTTPD2UQQ Vcvttps2dq VCVTTPS2DQ Vcvttps2qq VCVTTPS2QQ
    Vcvttps2udq VCVTTPS2UDQ Vcvttps2uqq VCVTTPS2UQQ Vcvttsd2si VCVTTSD2SI Vcvttsd2usi VCVTTSD2USI Vcvttss2si VCVTTSS2SI
    Vcvttss2usi VCVTTSS2USI Vcvtudq2pd VCVTUDQ2PD Vcvtudq2ps VCVTUDQ2PS Vcvtuqq2pd VCVTUQQ2PD Vcvtuqq2ps VCVTUQQ2PS Vcvtusi2sd VCVTUSI2SD
    Vcvtusi2ss VCVTUSI2SS Vdbpsadbw VDBPSADBW Vdivpd VDIVPD Vdivps VDIVPS Vdivsd VDIVSD Vdivss VDIVSS Vdpbf16ps VDPBF16PS Vdppd VDPPD
    Vdpps VDPPS Vexpandpd VEXPANDPD Vexpandps VEXPANDPS Vextractf128 VEXTRACTF128 Vextractf32x4 VEXTRACTF32X4 Vextractf32x8 VEXTRACTF32X8
    Vextractf64x2 VEXTRACTF64X2 Vextractf64x4 VEXTRACTF64X4 Vextracti128 VEXTRACTI128 Vextracti32x4 VEXTRACTI32X4
    Vextracti32x8 VEXTRACTI32X8 Vextracti64x2 VEXTRACTI64X2 Vextracti64x4 VEXTRACTI64X4 Vextractps VEXTRACTPS Vfixupimmpd VFIXUPIMMPD
    Vfixupimmps VFIXUPIMMPS Vfixupimmsd VFIXUPIMMSD Vfixupimmss VFIXUPIMMSS Vfmadd132pd VFMADD132PD Vfmadd132ps VFMADD132PS
    Vfmadd132sd VFMADD132SD Vfmadd132ss VFMADD132SS Vfmadd213pd VFMADD213PD Vfmadd213ps VFMADD213PS Vfmadd213sd VFMADD213SD
    Vfmadd213ss VFMADD213SS Vfmadd231pd VFMADD231PD Vfmadd231ps VFMADD231PS Vfmadd231sd VFMADD231SD Vfmadd231ss VFMADD231SS
    Vfmaddsub132pd VFMADDSUB132PD Vfmaddsub132ps VFMADDSUB132PS Vfmaddsub213pd VFMADDSUB213PD Vfmaddsub213ps VFMADDSUB213PS
    Vfmaddsub231pd VFMADDSUB231PD Vfmaddsub231ps VFMADDSUB231PS Vfmsub132pd VFMSUB132PD Vfmsub132ps VFMSUB132PS Vfmsub132sd VFMSUB132SD
    Vfmsub132ss VFMSUB132SS Vfmsub213pd VFMSUB213PD Vfmsub213ps VFMSUB213PS Vfmsub213sd VFMSUB213SD Vfmsub213ss VFMSUB213SS
    Vfmsub231pd VFMSUB231PD Vfmsub231ps VFMSUB231PS Vfmsub231sd VFMSUB231SD Vfmsub231ss VFMSUB231SS Vfmsubadd132pd VFMSUBADD132PD
    Vfmsubadd132ps VFMSUBADD132PS Vfmsubadd213pd VFMSUBADD213PD Vfmsubadd213ps VFMSUBADD213PS Vfmsubadd231pd VFMSUBADD231PD
    Vfmsubadd231ps VFMSUBADD231PS Vfnmadd132pd VFNMADD132PD Vfnmadd132ps VFNMADD132PS Vfnmadd132sd VFNMADD132SD Vfnmadd132ss VFNMADD132SS
    Vfnmadd213pd VFNMADD213PD Vfnmadd213ps VFNMADD213PS Vfnmadd213sd VFNMADD213SD Vfnmadd213ss VFNMADD213SS Vfnmadd231pd VFNMADD231PD
    Vfnmadd231ps VFNMADD231PS Vfnmadd231sd VFNMADD231SD Vfnmadd231ss VFNMADD231SS Vfnmsub132pd VFNMSUB132PD Vfnmsub132ps VFNMSUB132PS
    Vfnmsub132sd VFNMSUB132SD Vfnmsub132ss VFNMSUB132SS Vfnmsub213pd VFNMSUB213PD Vfnmsub213ps VFNMSUB213PS Vfnmsub213sd VFNMSUB213SD
    Vfnmsub213ss VFNMSUB213SS Vfnmsub231pd VFNMSUB231PD Vfnmsub231ps VFNMSUB231PS Vfnmsub231sd VFNMSUB231SD Vfnmsub231ss VFNMSUB231SS
    Vfpclasspd VFPCLASSPD Vfpclassps VFPCLASSPS Vfpclasssd VFPCLASSSD Vfpclassss VFPCLASSSS Vgatherdpd VGATHERDPD Vgatherdps VGATHERDPS
    Vgatherqpd VGATHERQPD Vgatherqps VGATHERQPS Vgetexppd VGETEXPPD Vgetexpps VGETEXPPS Vgetexpsd VGETEXPSD Vgetexpss VGETEXPSS
    Vgetmantpd VGETMANTPD Vgetmantps VGETMANTPS Vgetmantsd VGETMANTSD Vgetmantss VGETMANTSS Vgf2p8affineinvqb VGF2P8AFFINEINVQB
    Vgf2p8affineqb VGF2P8AFFINEQB Vgf2p8mulb VGF2P8MULB Vhaddpd VHADDPD Vhaddps VHADDPS Vhsubpd VHSUBPD Vhsubps VHSUBPS
    Vinsertf128 VINSERTF128 Vinsertf32x4 VINSERTF32X4 Vinsertf32x8 VINSERTF32X8 Vinsertf64x2 VINSERTF64X2 Vinsertf64x4 VINSERTF64X4
    Vinserti128 VINSERTI128 Vinserti32x4 VINSERTI32X4 Vinserti32x8 VINSERTI32X8 Vinserti64x2 VINSERTI64X2 Vinserti64x4 VINSERTI64X4
    Vinsertps VINSERTPS Vlddqu VLDDQU Vldmxcsr VLDMXCSR Vmaskmovpd VMASKMOVPD Vmaskmovps VMASKMOVPS Vmaxpd VMAXPD Vmaxps VMAXPS
    Vmaxsd VMAXSD Vmaxss VMAXSS Vminpd VMINPD Vminps VMINPS Vminsd VMINSD Vminss VMINSS Vmovapd VMOVAPD Vmovaps VMOVAPS Vmovd VMOVD
    Vmovddup VMOVDDUP Vmovdqa VMOVDQA Vmovdqa32 VMOVDQA32 Vmovdqa64 VMOVDQA64 Vmovdqu VMOVDQU Vmovdqu16 VMOVDQU16 Vmovdqu32 VMOVDQU32
    Vmovdqu64 VMOVDQU64 Vmovdqu8 VMOVDQU8 Vmovhlps VMOVHLPS Vmovhpd VMOVHPD Vmovhps VMOVHPS Vmovlhps VMOVLHPS Vmovlpd VMOVLPD
    Vmovlps VMOVLPS Vmovmskpd VMOVMSKPD Vmovmskps VMOVMSKPS Vmovntdq VMOVNTDQ Vmovntdqa VMOVNTDQA Vmovntpd VMOVNTPD Vmovntps VMOVNTPS
    Vmovq VMOVQ Vmovsd VMOVSD Vmovshdup VMOVSHDUP Vmovsldup VMOVSLDUP Vmovss VMOVSS Vmovupd VMOVUPD Vmovups VMOVUPS Vmpsadbw VMPSADBW
    Vmulpd VMULPD Vmulps VMULPS Vmulsd VMULSD Vmulss VMULSS Vorpd VORPD Vorps VORPS Vpabsb VPABSB Vpabsd VPABSD Vpabsq VPABSQ
    Vpabsw VPABSW Vpackssdw VPACKSSDW Vpacksswb VPACKSSWB Vpackusdw VPACKUSDW Vpackuswb VPACKUSWB Vpaddb VPADDB Vpaddd VPADDD
    Vpaddq VPADDQ Vpaddsb VPADDSB Vpaddsw VPADDSW Vpaddusb VPADDUSB Vpaddusw VPADDUSW Vpaddw VPADDW Vpalignr VPALIGNR Vpand VPAND
    Vpandd VPANDD Vpandn VPANDN Vpandnd VPANDND Vpandnq VPANDNQ Vpandq VPANDQ Vpavgb VPAVGB Vpavgw VPAVGW Vpblendd VPBLENDD
    Vpblendmb VPBLENDMB Vpblendmd VPBLENDMD Vpblendmq VPBLENDMQ Vpblendmw VPBLENDMW Vpblendvb VPBLENDVB Vpblendw VPBLENDW
    Vpbroadcastb VPBROADCASTB Vpbroadcastd VPBROADCASTD Vpbroadcastmb2q VPBROADCASTMB2Q Vpbroadcastmw2d VPBROADCASTMW2D
    Vpbroadcastq VPBROADCASTQ Vpbroadcastw VPBROADCASTW Vpclmulqdq VPCLMULQDQ Vpcmpb VPCMPB Vpcmpd VPCMPD Vpcmpeqb VPCMPEQB
    Vpcmpeqd VPCMPEQD Vpcmpeqq VPCMPEQQ Vpcmpeqw VPCMPEQW Vpcmpestri VPCMPESTRI Vpcmpestri64 VPCMPESTRI Vpcmpestrm VPCMPESTRM
    Vpcmpestrm64 VPCMPESTRM Vpcmpgtb VPCMPGTB Vpcmpgtd VPCMPGTD Vpcmpgtq VPCMPGTQ Vpcmpgtw VPCMPGTW Vpcmpistri VPCMPISTRI
    Vpcmpistrm VPCMPISTRM Vpcmpq VPCMPQ Vpcmpub VPCMPUB Vpcmpud VPCMPUD Vpcmpuq VPCMPUQ Vpcmpuw VPCMPUW Vpcmpw VPCMPW
    Vpcompressb VPCOMPRESSB Vpcompressd VPCOMPRESSD Vpcompressq VPCOMPRESSQ Vpcompressw VPCOMPRESSW Vpconflictd VPCONFLICTD
    Vpconflictq VPCONFLICTQ Vpdpbusd VPDPBUSD Vpdpbusds VPDPBUSDS Vpdpwssd VPDPWSSD Vpdpwssds VPDPWSSDS Vperm2f128 VPERM2F128
    Vperm2i128 VPERM2I128 Vpermb VPERMB Vpermd VPERMD Vpermi2b VPERMI2B Vpermi2d VPERMI2D Vpermi2pd VPERMI2PD Vpermi2ps VPERMI2PS
    Vpermi2q VPERMI2Q Vpermi2w VPERMI2W Vpermilpd VPERMILPD Vpermilps VPERMILPS Vpermpd VPERMPD Vpermps VPERMPS Vpermq VPERMQ
    Vpermt2b VPERMT2B Vpermt2d VPERMT2D Vpermt2pd VPERMT2PD Vpermt2ps VPERMT2PS Vpermt2q VPERMT2Q Vpermt2w VPERMT2W Vpermw VPERMW
    Vpexpandb VPEXPANDB Vpexpandd VPEXPANDD Vpexpandq VPEXPANDQ Vpexpandw VPEXPANDW Vpextrb VPEXTRB Vpextrd VPEXTRD Vpextrq VPEXTRQ
    Vpextrw VPEXTRW Vpgatherdd VPGATHERDD Vpgatherdq VPGATHERDQ Vpgatherqd VPGATHERQD Vpgatherqq VPGATHERQQ Vphaddd VPHADDD
    Vphaddsw VPHADDSW Vphaddw VPHADDW Vphminposuw VPHMINPOSUW Vphsubd VPHSUBD Vphsubsw VPHSUBSW Vphsubw VPHSUBW Vpinsrb VPINSRB
    Vpinsrd VPINSRD Vpinsrq VPINSRQ Vpinsrw VPINSRW Vplzcntd VPLZCNTD Vplzcntq VPLZCNTQ Vpmadd52huq VPMADD52HUQ Vpmadd52luq VPMADD52LUQ
    Vpmaddubsw VPMADDUBSW Vpmaddwd VPMADDWD Vpmaskmovd VPMASKMOVD Vpmaskmovq VPMASKMOVQ Vpmaxsb VPMAXSB Vpmaxsd VPMAXSD Vpmaxsq VPMAXSQ
    Vpmaxsw VPMAXSW Vpmaxub VPMAXUB Vpmaxud VPMAXUD Vpmaxuq VPMAXUQ Vpmaxuw VPMAXUW Vpminsb VPMINSB Vpminsd VPMINSD Vpminsq VPMINSQ
    Vpminsw VPMINSW Vpminub VPMINUB Vpminud VPMINUD Vpminuq VPMINUQ Vpminuw VPMINUW Vpmovb2m VPMOVB2M Vpmovd2m VPMOVD2M Vpmovdb VPMOVDB
    Vpmovdw VPMOVDW Vpmovm2b VPMOVM2B Vpmovm2d VPMOVM2D Vpmovm2q VPMOVM2Q Vpmovm2w VPMOVM2W Vpmovmskb VPMOVMSKB Vpmovq2m VPMOVQ2M
    Vpmovqb VPMOVQB Vpmovqd VPMOVQD Vpmovqw VPMOVQW Vpmovsdb VPMOVSDB Vpmovsdw VPMOVSDW Vpmovsqb VPMOVSQB Vpmovsqd VPMOVSQD
    Vpmovsqw VPMOVSQW Vpmovswb VPMOVSWB Vpmovsxbd VPMOVSXBD Vpmovsxbq VPMOVSXBQ Vpmovsxbw VPMOVSXBW Vpmovsxdq VPMOVSXDQ
    Vpmovsxwd VPMOVSXWD Vpmovsxwq VPMOVSXWQ Vpmovusdb VPMOVUSDB Vpmovusdw VPMOVUSDW Vpmovusqb VPMOVUSQB Vpmovusqd VPMOVUSQD
    Vpmovusqw VPMOVUSQW Vpmovuswb VPMOVUSWB Vpmovw2m VPMOVW2M Vpmovwb VPMOVWB Vpmovzxbd VPMOVZXBD Vpmovzxbq VPMOVZXBQ Vpmovzxbw VPMOVZXBW
    Vpmovzxdq VPMOVZXDQ Vpmovzxwd VPMOVZXWD Vpmovzxwq VPMOVZXWQ Vpmuldq VPMULDQ Vpmulhrsw VPMULHRSW Vpmulhuw VPMULHUW Vpmulhw VPMULHW
    Vpmulld VPMULLD Vpmullq VPMULLQ Vpmullw VPMULLW Vpmultishiftqb VPMULTISHIFTQB Vpmuludq VPMULUDQ Vpopcntb VPOPCNTB Vpopcntd VPOPCNTD
    Vpopcntq VPOPCNTQ Vpopcntw VPOPCNTW Vpor VPOR Vpord VPORD Vporq VPORQ Vprold VPROLD Vprolq VPROLQ Vprolvd VPROLVD Vprolvq VPROLVQ
    Vprord VPRORD Vprorq VPRORQ Vprorvd VPRORVD Vprorvq VPRORVQ Vpsadbw VPSADBW Vpshldd VPSHLDD Vpshldq VPSHLDQ Vpshldvd VPSHLDVD
    Vpshldvq VPSHLDVQ Vpshldvw VPSHLDVW Vpshldw VPSHLDW Vpshrdd VPSHRDD Vpshrdq VPSHRDQ Vpshrdvd VPSHRDVD Vpshrdvq VPSHRDVQ
    Vpshrdvw VPSHRDVW Vpshrdw VPSHRDW Vpshufb VPSHUFB Vpshufbitqmb VPSHUFBITQMB Vpshufd VPSHUFD Vpshufhw VPSHUFHW Vpshuflw VPSHUFLW
    Vpsignb VPSIGNB Vpsignd VPSIGND Vpsignw VPSIGNW Vpslld VPSLLD Vpslldq VPSLLDQ Vpsllq VPSLLQ Vpsllvd VPSLLVD Vpsllvq VPSLLVQ
    Vpsllvw VPSLLVW Vpsllw VPSLLW Vpsrad VPSRAD Vpsraq VPSRAQ Vpsravd VPSRAVD Vpsravq VPSRAVQ Vpsravw VPSRAVW Vpsraw VPSRAW Vpsrld VPSRLD
    Vpsrldq VPSRLDQ Vpsrlq VPSRLQ Vpsrlvd VPSRLVD Vpsrlvq VPSRLVQ Vpsrlvw VPSRLVW Vpsrlw VPSRLW Vpsubb VPSUBB Vpsubd VPSUBD Vpsubq VPSUBQ
    Vpsubsb VPSUBSB Vpsubsw VPSUBSW Vpsubusb VPSUBUSB Vpsubusw VPSUBUSW Vpsubw VPSUBW Vpternlogd VPTERNLOGD Vpternlogq VPTERNLOGQ
    Vptest VPTEST Vptestmb VPTESTMB Vptestmd VPTESTMD Vptestmq VPTESTMQ Vptestmw VPTESTMW Vptestnmb VPTESTNMB Vptestnmd VPTESTNMD
    Vptestnmq VPTESTNMQ Vptestnmw VPTESTNMW Vpunpckhbw VPUNPCKHBW Vpunpckhdq VPUNPCKHDQ Vpunpckhqdq VPUNPCKHQDQ Vpunpckhwd VPUNPCKHWD
    Vpunpcklbw VPUNPCKLBW Vpunpckldq VPUNPCKLDQ Vpunpcklqdq VPUNPCKLQDQ Vpunpcklwd VPUNPCKLWD Vpxor VPXOR Vpxord VPXORD Vpxorq VPXORQ
    Vrangepd VRANGEPD Vrangeps VRANGEPS Vrangesd VRANGESD Vrangess VRANGESS Vrcp14pd VRCP14PD Vrcp14ps VRCP14PS Vrcp14sd VRCP14SD
    Vrcp14ss VRCP14SS Vrcpps VRCPPS Vrcpss VRCPSS Vreducepd VREDUCEPD Vreduceps VREDUCEPS Vreducesd VREDUCESD Vreducess VREDUCESS
    Vrndscalepd VRNDSCALEPD Vrndscaleps VRNDSCALEPS Vrndscalesd VRNDSCALESD Vrndscaless VRNDSCALESS Vroundpd VROUNDPD Vroundps VROUNDPS
    Vroundsd VROUNDSD Vroundss VROUNDSS Vrsqrt14pd VRSQRT14PD Vrsqrt14ps VRSQRT14PS Vrsqrt14sd VRSQRT14SD Vrsqrt14ss VRSQRT14SS
    Vrsqrtps VRSQRTPS Vrsqrtss VRSQRTSS Vscalefpd VSCALEFPD Vscalefps VSCALEFPS Vscalefsd VSCALEFSD Vscalefss VSCALEFSS
    Vshuff32x4 VSHUFF32X4 Vshuff64x2 VSHUFF64X2 Vshufi32x4 VSHUFI32X4 Vshufi64x2 VSHUFI64X2 Vshufpd VSHUFPD Vshufps VSHUFPS
    Vsqrtpd VSQRTPD Vsqrtps VSQRTPS Vsqrtsd VSQRTSD Vsqrtss VSQRTSS Vstmxcsr VSTMXCSR Vsubpd VSUBPD Vsubps VSUBPS Vsubsd VSUBSD
    Vsubss VSUBSS Vtestpd VTESTPD Vtestps VTESTPS Vucomisd VUCOMISD Vucomiss VUCOMISS Vunpckhpd VUNPCKHPD Vunpckhps VUNPCKHPS
    Vunpcklpd VUNPCKLPD Vunpcklps VUNPCKLPS Vxorpd VXORPD Vxorps VXORPS Vzeroall VZEROALL Vzeroupper VZEROUPPER Wait WAIT Xadd XADD
    Xchg XCHG Xgetbv XGETBV Xlatb XLAT Xor XOR Xorpd XORPD Xorps XORPS
}
