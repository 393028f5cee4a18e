//! A part of the positive list, see [`super`]. Checked and written by the test `policy_table`.

super::forms! {
    X87 None(0) [] writes() clobbers() {
        Wait Fcom_st0_sti Fcomp_st0_sti Fld_sti Fnop Fchs Fabs Ftst Fxam Fld1 Fldl2t Fldl2e Fldpi Fldlg2 Fldln2 Fldz
        F2xm1 Fyl2x Fptan Fpatan Fxtract Fprem1 Fdecstp Fincstp Fprem Fyl2xp1 Fsqrt Fsincos Frndint Fscale Fsin Fcos
        Fucompp Fnclex Fninit Fucomi_st0_sti Fcomi_st0_sti Ffree_sti Fucom_st0_sti Fucomp_st0_sti Fcompp Ffreep_sti
        Fucomip_st0_sti Fcomip_st0_sti
    }
    X87 None(0) [] writes(0) clobbers() {
        Fadd_st0_sti Fmul_st0_sti Fsub_st0_sti Fsubr_st0_sti Fdiv_st0_sti Fdivr_st0_sti Fcmovb_st0_sti Fcmove_st0_sti
        Fcmovbe_st0_sti Fcmovu_st0_sti Fcmovnb_st0_sti Fcmovne_st0_sti Fcmovnbe_st0_sti Fcmovnu_st0_sti Fadd_sti_st0
        Fmul_sti_st0 Fsubr_sti_st0 Fsub_sti_st0 Fdivr_sti_st0 Fdiv_sti_st0 Fst_sti Fstp_sti Faddp_sti_st0
        Fmulp_sti_st0 Fsubrp_sti_st0 Fsubp_sti_st0 Fdivrp_sti_st0 Fdivp_sti_st0 Fnstsw_AX
    }
    X87 None(0) [] writes(0 1) clobbers() {
        Fxch_st0_sti
    }
    X87 Load(0) [] writes() clobbers() {
        Fadd_m32fp Fmul_m32fp Fcom_m32fp Fcomp_m32fp Fsub_m32fp Fsubr_m32fp Fdiv_m32fp Fdivr_m32fp Fld_m32fp
        Fldenv_m28byte Fldcw_m2byte Fiadd_m32int Fimul_m32int Ficom_m32int Ficomp_m32int Fisub_m32int Fisubr_m32int
        Fidiv_m32int Fidivr_m32int Fild_m32int Fld_m80fp Fadd_m64fp Fmul_m64fp Fcom_m64fp Fcomp_m64fp Fsub_m64fp
        Fsubr_m64fp Fdiv_m64fp Fdivr_m64fp Fld_m64fp Frstor_m108byte Fiadd_m16int Fimul_m16int Ficom_m16int
        Ficomp_m16int Fisub_m16int Fisubr_m16int Fidiv_m16int Fidivr_m16int Fild_m16int Fbld_m80bcd Fild_m64int
    }
    X87 Store(0) [] writes() clobbers() {
        Fst_m32fp Fstp_m32fp Fnstcw_m2byte Fisttp_m32int Fist_m32int Fistp_m32int Fstp_m80fp Fisttp_m64int Fst_m64fp
        Fstp_m64fp Fnstsw_m2byte Fisttp_m16int Fist_m16int Fistp_m16int Fbstp_m80bcd Fistp_m64int
    }
    Mmx None(0) [] writes() clobbers() {
        Emms
    }
    Mmx None(0) [] writes(0) clobbers() {
        Psrlw_mm_imm8 Psraw_mm_imm8 Psllw_mm_imm8 Psrld_mm_imm8 Psrad_mm_imm8 Pslld_mm_imm8 Psrlq_mm_imm8
        Psllq_mm_imm8 Pextrw_r32_mm_imm8 Pextrw_r64_mm_imm8 Pmovmskb_r32_mm Pmovmskb_r64_mm
    }
    Mmx None(0) [PF3] writes(0) clobbers() {
        Movq2dq_xmm_mm
    }
    Mmx None(0) [PF2] writes(0) clobbers() {
        Movdq2q_mm_xmm
    }
    Mmx Load(1) [] writes(0) clobbers() {
        Cvtpi2ps_xmm_mmm64 Cvttps2pi_mm_xmmm64 Cvtps2pi_mm_xmmm64 Punpcklbw_mm_mmm32 Punpcklwd_mm_mmm32
        Punpckldq_mm_mmm32 Packsswb_mm_mmm64 Pcmpgtb_mm_mmm64 Pcmpgtw_mm_mmm64 Pcmpgtd_mm_mmm64 Packuswb_mm_mmm64
        Punpckhbw_mm_mmm64 Punpckhwd_mm_mmm64 Punpckhdq_mm_mmm64 Packssdw_mm_mmm64 Movd_mm_rm32 Movq_mm_rm64
        Movq_mm_mmm64 Pshufw_mm_mmm64_imm8 Pcmpeqb_mm_mmm64 Pcmpeqw_mm_mmm64 Pcmpeqd_mm_mmm64 Pinsrw_mm_r32m16_imm8
        Pinsrw_mm_r64m16_imm8 Psrlw_mm_mmm64 Psrld_mm_mmm64 Psrlq_mm_mmm64 Paddq_mm_mmm64 Pmullw_mm_mmm64
        Psubusb_mm_mmm64 Psubusw_mm_mmm64 Pminub_mm_mmm64 Pand_mm_mmm64 Paddusb_mm_mmm64 Paddusw_mm_mmm64
        Pmaxub_mm_mmm64 Pandn_mm_mmm64 Pavgb_mm_mmm64 Psraw_mm_mmm64 Psrad_mm_mmm64 Pavgw_mm_mmm64 Pmulhuw_mm_mmm64
        Pmulhw_mm_mmm64 Psubsb_mm_mmm64 Psubsw_mm_mmm64 Pminsw_mm_mmm64 Por_mm_mmm64 Paddsb_mm_mmm64 Paddsw_mm_mmm64
        Pmaxsw_mm_mmm64 Pxor_mm_mmm64 Psllw_mm_mmm64 Pslld_mm_mmm64 Psllq_mm_mmm64 Pmuludq_mm_mmm64 Pmaddwd_mm_mmm64
        Psadbw_mm_mmm64 Psubb_mm_mmm64 Psubw_mm_mmm64 Psubd_mm_mmm64 Psubq_mm_mmm64 Paddb_mm_mmm64 Paddw_mm_mmm64
        Paddd_mm_mmm64 Pshufb_mm_mmm64 Phaddw_mm_mmm64 Phaddd_mm_mmm64 Phaddsw_mm_mmm64 Pmaddubsw_mm_mmm64
        Phsubw_mm_mmm64 Phsubd_mm_mmm64 Phsubsw_mm_mmm64 Psignb_mm_mmm64 Psignw_mm_mmm64 Psignd_mm_mmm64
        Pmulhrsw_mm_mmm64 Pabsb_mm_mmm64 Pabsw_mm_mmm64 Pabsd_mm_mmm64 Palignr_mm_mmm64_imm8
    }
    Mmx Load(1) [P66] writes(0) clobbers() {
        Cvtpi2pd_xmm_mmm64 Cvttpd2pi_mm_xmmm128 Cvtpd2pi_mm_xmmm128
    }
    Mmx Store(0) [] writes() clobbers() {
        Movntq_m64_mm
    }
    Mmx Store(0) [] writes(0) clobbers() {
        Movd_rm32_mm Movq_rm64_mm Movq_mmm64_mm
    }
    X87Places Store(0) [] writes() clobbers() {
        Fnstenv_m28byte Fnsave_m108byte
    }
}
