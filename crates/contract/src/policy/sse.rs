//! A part of the positive list, see [`super`]. Checked and written by the test `policy_table`.

super::forms! {
    Sse None(0) [] writes(0) clobbers() {
        Movhlps_xmm_xmm Movlhps_xmm_xmm Movmskps_r32_xmm Movmskps_r64_xmm
    }
    Sse None(0) [P66] writes(0) clobbers() {
        Movmskpd_r32_xmm Movmskpd_r64_xmm Psrlw_xmm_imm8 Psraw_xmm_imm8 Psllw_xmm_imm8 Psrld_xmm_imm8 Psrad_xmm_imm8
        Pslld_xmm_imm8 Psrlq_xmm_imm8 Psrldq_xmm_imm8 Psllq_xmm_imm8 Pslldq_xmm_imm8 Pextrw_r32_xmm_imm8
        Pextrw_r64_xmm_imm8 Pmovmskb_r32_xmm Pmovmskb_r64_xmm
    }
    Sse Load(1) [] writes() clobbers() {
        Ucomiss_xmm_xmmm32 Comiss_xmm_xmmm32
    }
    Sse Load(1) [] writes(0) clobbers() {
        Movups_xmm_xmmm128 Movlps_xmm_m64 Unpcklps_xmm_xmmm128 Unpckhps_xmm_xmmm128 Movhps_xmm_m64 Movaps_xmm_xmmm128
        Sqrtps_xmm_xmmm128 Rsqrtps_xmm_xmmm128 Rcpps_xmm_xmmm128 Andps_xmm_xmmm128 Andnps_xmm_xmmm128 Orps_xmm_xmmm128
        Xorps_xmm_xmmm128 Addps_xmm_xmmm128 Mulps_xmm_xmmm128 Cvtps2pd_xmm_xmmm64 Cvtdq2ps_xmm_xmmm128
        Subps_xmm_xmmm128 Minps_xmm_xmmm128 Divps_xmm_xmmm128 Maxps_xmm_xmmm128 Cmpps_xmm_xmmm128_imm8
        Shufps_xmm_xmmm128_imm8 Sha1nexte_xmm_xmmm128 Sha1msg1_xmm_xmmm128 Sha1msg2_xmm_xmmm128
        Sha256rnds2_xmm_xmmm128 Sha256msg1_xmm_xmmm128 Sha256msg2_xmm_xmmm128 Sha1rnds4_xmm_xmmm128_imm8
    }
    Sse Load(1) [P66] writes() clobbers() {
        Ucomisd_xmm_xmmm64 Comisd_xmm_xmmm64 Ptest_xmm_xmmm128 Pcmpestrm_xmm_xmmm128_imm8 Pcmpestrm64_xmm_xmmm128_imm8
        Pcmpistrm_xmm_xmmm128_imm8
    }
    Sse Load(1) [P66] writes() clobbers(RCX) {
        Pcmpestri_xmm_xmmm128_imm8 Pcmpestri64_xmm_xmmm128_imm8 Pcmpistri_xmm_xmmm128_imm8
    }
    Sse Load(1) [P66] writes(0) clobbers() {
        Movupd_xmm_xmmm128 Movlpd_xmm_m64 Unpcklpd_xmm_xmmm128 Unpckhpd_xmm_xmmm128 Movhpd_xmm_m64 Movapd_xmm_xmmm128
        Sqrtpd_xmm_xmmm128 Andpd_xmm_xmmm128 Andnpd_xmm_xmmm128 Orpd_xmm_xmmm128 Xorpd_xmm_xmmm128 Addpd_xmm_xmmm128
        Mulpd_xmm_xmmm128 Cvtpd2ps_xmm_xmmm128 Cvtps2dq_xmm_xmmm128 Subpd_xmm_xmmm128 Minpd_xmm_xmmm128
        Divpd_xmm_xmmm128 Maxpd_xmm_xmmm128 Punpcklbw_xmm_xmmm128 Punpcklwd_xmm_xmmm128 Punpckldq_xmm_xmmm128
        Packsswb_xmm_xmmm128 Pcmpgtb_xmm_xmmm128 Pcmpgtw_xmm_xmmm128 Pcmpgtd_xmm_xmmm128 Packuswb_xmm_xmmm128
        Punpckhbw_xmm_xmmm128 Punpckhwd_xmm_xmmm128 Punpckhdq_xmm_xmmm128 Packssdw_xmm_xmmm128 Punpcklqdq_xmm_xmmm128
        Punpckhqdq_xmm_xmmm128 Movd_xmm_rm32 Movq_xmm_rm64 Movdqa_xmm_xmmm128 Pshufd_xmm_xmmm128_imm8
        Pcmpeqb_xmm_xmmm128 Pcmpeqw_xmm_xmmm128 Pcmpeqd_xmm_xmmm128 Haddpd_xmm_xmmm128 Hsubpd_xmm_xmmm128
        Cmppd_xmm_xmmm128_imm8 Pinsrw_xmm_r32m16_imm8 Pinsrw_xmm_r64m16_imm8 Shufpd_xmm_xmmm128_imm8
        Addsubpd_xmm_xmmm128 Psrlw_xmm_xmmm128 Psrld_xmm_xmmm128 Psrlq_xmm_xmmm128 Paddq_xmm_xmmm128
        Pmullw_xmm_xmmm128 Psubusb_xmm_xmmm128 Psubusw_xmm_xmmm128 Pminub_xmm_xmmm128 Pand_xmm_xmmm128
        Paddusb_xmm_xmmm128 Paddusw_xmm_xmmm128 Pmaxub_xmm_xmmm128 Pandn_xmm_xmmm128 Pavgb_xmm_xmmm128
        Psraw_xmm_xmmm128 Psrad_xmm_xmmm128 Pavgw_xmm_xmmm128 Pmulhuw_xmm_xmmm128 Pmulhw_xmm_xmmm128
        Cvttpd2dq_xmm_xmmm128 Psubsb_xmm_xmmm128 Psubsw_xmm_xmmm128 Pminsw_xmm_xmmm128 Por_xmm_xmmm128
        Paddsb_xmm_xmmm128 Paddsw_xmm_xmmm128 Pmaxsw_xmm_xmmm128 Pxor_xmm_xmmm128 Psllw_xmm_xmmm128 Pslld_xmm_xmmm128
        Psllq_xmm_xmmm128 Pmuludq_xmm_xmmm128 Pmaddwd_xmm_xmmm128 Psadbw_xmm_xmmm128 Psubb_xmm_xmmm128
        Psubw_xmm_xmmm128 Psubd_xmm_xmmm128 Psubq_xmm_xmmm128 Paddb_xmm_xmmm128 Paddw_xmm_xmmm128 Paddd_xmm_xmmm128
        Pshufb_xmm_xmmm128 Phaddw_xmm_xmmm128 Phaddd_xmm_xmmm128 Phaddsw_xmm_xmmm128 Pmaddubsw_xmm_xmmm128
        Phsubw_xmm_xmmm128 Phsubd_xmm_xmmm128 Phsubsw_xmm_xmmm128 Psignb_xmm_xmmm128 Psignw_xmm_xmmm128
        Psignd_xmm_xmmm128 Pmulhrsw_xmm_xmmm128 Pblendvb_xmm_xmmm128 Blendvps_xmm_xmmm128 Blendvpd_xmm_xmmm128
        Pabsb_xmm_xmmm128 Pabsw_xmm_xmmm128 Pabsd_xmm_xmmm128 Pmovsxbw_xmm_xmmm64 Pmovsxbd_xmm_xmmm32
        Pmovsxbq_xmm_xmmm16 Pmovsxwd_xmm_xmmm64 Pmovsxwq_xmm_xmmm32 Pmovsxdq_xmm_xmmm64 Pmuldq_xmm_xmmm128
        Pcmpeqq_xmm_xmmm128 Movntdqa_xmm_m128 Packusdw_xmm_xmmm128 Pmovzxbw_xmm_xmmm64 Pmovzxbd_xmm_xmmm32
        Pmovzxbq_xmm_xmmm16 Pmovzxwd_xmm_xmmm64 Pmovzxwq_xmm_xmmm32 Pmovzxdq_xmm_xmmm64 Pcmpgtq_xmm_xmmm128
        Pminsb_xmm_xmmm128 Pminsd_xmm_xmmm128 Pminuw_xmm_xmmm128 Pminud_xmm_xmmm128 Pmaxsb_xmm_xmmm128
        Pmaxsd_xmm_xmmm128 Pmaxuw_xmm_xmmm128 Pmaxud_xmm_xmmm128 Pmulld_xmm_xmmm128 Phminposuw_xmm_xmmm128
        Gf2p8mulb_xmm_xmmm128 Aesimc_xmm_xmmm128 Aesenc_xmm_xmmm128 Aesenclast_xmm_xmmm128 Aesdec_xmm_xmmm128
        Aesdeclast_xmm_xmmm128 Roundps_xmm_xmmm128_imm8 Roundpd_xmm_xmmm128_imm8 Roundss_xmm_xmmm32_imm8
        Roundsd_xmm_xmmm64_imm8 Blendps_xmm_xmmm128_imm8 Blendpd_xmm_xmmm128_imm8 Pblendw_xmm_xmmm128_imm8
        Palignr_xmm_xmmm128_imm8 Pinsrb_xmm_r32m8_imm8 Pinsrb_xmm_r64m8_imm8 Insertps_xmm_xmmm32_imm8
        Pinsrd_xmm_rm32_imm8 Pinsrq_xmm_rm64_imm8 Dpps_xmm_xmmm128_imm8 Dppd_xmm_xmmm128_imm8 Mpsadbw_xmm_xmmm128_imm8
        Pclmulqdq_xmm_xmmm128_imm8 Gf2p8affineqb_xmm_xmmm128_imm8 Gf2p8affineinvqb_xmm_xmmm128_imm8
        Aeskeygenassist_xmm_xmmm128_imm8
    }
    Sse Load(1) [PF3] writes(0) clobbers() {
        Movss_xmm_xmmm32 Movsldup_xmm_xmmm128 Movshdup_xmm_xmmm128 Cvtsi2ss_xmm_rm32 Cvtsi2ss_xmm_rm64
        Cvttss2si_r32_xmmm32 Cvttss2si_r64_xmmm32 Cvtss2si_r32_xmmm32 Cvtss2si_r64_xmmm32 Sqrtss_xmm_xmmm32
        Rsqrtss_xmm_xmmm32 Rcpss_xmm_xmmm32 Addss_xmm_xmmm32 Mulss_xmm_xmmm32 Cvtss2sd_xmm_xmmm32
        Cvttps2dq_xmm_xmmm128 Subss_xmm_xmmm32 Minss_xmm_xmmm32 Divss_xmm_xmmm32 Maxss_xmm_xmmm32 Movdqu_xmm_xmmm128
        Pshufhw_xmm_xmmm128_imm8 Movq_xmm_xmmm64 Cmpss_xmm_xmmm32_imm8 Cvtdq2pd_xmm_xmmm64
    }
    Sse Load(1) [PF2] writes(0) clobbers() {
        Movsd_xmm_xmmm64 Movddup_xmm_xmmm64 Cvtsi2sd_xmm_rm32 Cvtsi2sd_xmm_rm64 Cvttsd2si_r32_xmmm64
        Cvttsd2si_r64_xmmm64 Cvtsd2si_r32_xmmm64 Cvtsd2si_r64_xmmm64 Sqrtsd_xmm_xmmm64 Addsd_xmm_xmmm64
        Mulsd_xmm_xmmm64 Cvtsd2ss_xmm_xmmm64 Subsd_xmm_xmmm64 Minsd_xmm_xmmm64 Divsd_xmm_xmmm64 Maxsd_xmm_xmmm64
        Pshuflw_xmm_xmmm128_imm8 Haddps_xmm_xmmm128 Hsubps_xmm_xmmm128 Cmpsd_xmm_xmmm64_imm8 Addsubps_xmm_xmmm128
        Cvtpd2dq_xmm_xmmm128 Lddqu_xmm_m128
    }
    Sse Store(0) [] writes() clobbers() {
        Movlps_m64_xmm Movhps_m64_xmm Movntps_m128_xmm
    }
    Sse Store(0) [] writes(0) clobbers() {
        Movups_xmmm128_xmm Movaps_xmmm128_xmm
    }
    Sse Store(0) [P66] writes() clobbers() {
        Movlpd_m64_xmm Movhpd_m64_xmm Movntpd_m128_xmm Movntdq_m128_xmm
    }
    Sse Store(0) [P66] writes(0) clobbers() {
        Movupd_xmmm128_xmm Movapd_xmmm128_xmm Movd_rm32_xmm Movq_rm64_xmm Movdqa_xmmm128_xmm Movq_xmmm64_xmm
        Pextrb_r32m8_xmm_imm8 Pextrb_r64m8_xmm_imm8 Pextrw_r32m16_xmm_imm8 Pextrw_r64m16_xmm_imm8 Pextrd_rm32_xmm_imm8
        Pextrq_rm64_xmm_imm8 Extractps_rm32_xmm_imm8 Extractps_r64m32_xmm_imm8
    }
    Sse Store(0) [PF3] writes(0) clobbers() {
        Movss_xmmm32_xmm Movdqu_xmmm128_xmm
    }
    Sse Store(0) [PF2] writes(0) clobbers() {
        Movsd_xmmm64_xmm
    }
    Mxcsr Load(0) [] writes() clobbers() {
        Ldmxcsr_m32 VEX_Vldmxcsr_m32
    }
    Mxcsr Store(0) [] writes() clobbers() {
        Stmxcsr_m32 VEX_Vstmxcsr_m32
    }
}
